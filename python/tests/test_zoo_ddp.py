"""What check advises holds: stock DDP trains 20 steps without the flag where it says so, and only there."""

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("this torch has no gloo", allow_module_level=True)

import zoo
from ddpc.torch import check
from zoo.ranks import Ranks

UNFINISHED = "Expected to have finished reduction"


@pytest.fixture(scope="module")
def ranks():
    with Ranks() as both:
        yield both


@pytest.mark.parametrize("model", [m for m in zoo.MODELS.values() if not m.ddp], ids=lambda m: m.name)
def test_advice_holds(model, ranks):
    s = model.setup()
    zoo.seed()
    answer = check(s.module, s.batches, s.loss, steps=s.steps)
    lists = [step["ddp"]["freeze"] for step in answer["steps"]]
    freeze = [name for name in lists[0] if all(name in others for others in lists)]
    plain = ranks.run(model.name, {}, freeze)
    if answer["verdict"] == "flag_not_needed":
        assert plain is None
        if freeze:  # and the list is needed
            assert UNFINISHED in ranks.run(model.name, {}, freeze[1:])
    else:
        assert answer["verdict"] == "flag_needed"
        assert plain is not None and UNFINISHED in plain
        assert ranks.run(model.name, {"find_unused_parameters": True}, freeze) is None
