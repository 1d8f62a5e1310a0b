"""Names are those of the user's own module, whatever is wrapped around it; torch.export's view of a module agrees."""

import warnings

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from ddpc import Error  # noqa: E402
from ddpc.torch import check, export  # noqa: E402
from ddpc.torch.exported import OLDEST, version  # noqa: E402
from ddpc.torch.read import parse  # noqa: E402


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.aside = nn.Linear(4, 4)
        self.tied = nn.Linear(4, 4)
        self.tied.weight = self.body.weight
        self.unused = nn.Linear(2, 2)

    def forward(self, x):
        h = self.norm(self.body(x))
        with torch.no_grad():
            y = self.aside(h)  # the line of the cut
        return self.tied(h) + y


def loss(output, x):
    return output.sum()


BATCHES = [torch.ones(3, 4)]
PLAIN = ["aside.bias", "aside.weight", "body.bias", "body.weight", "norm.bias", "norm.weight", "tied.bias", "unused.bias",
         "unused.weight"]


def classes(answer):
    return {p["name"]: p["class"] for p in answer["steps"][0]["parameters"] if p["kind"] == "parameter"}


@pytest.fixture(scope="module")
def plain():
    found = classes(check(Net(), BATCHES, loss))
    assert sorted(found) == PLAIN and found["aside.weight"] == found["unused.weight"] == "never"
    return found


@pytest.fixture
def alone(tmp_path):
    """A process group of one."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.FileStore(str(tmp_path / "store"), 1), rank=0,
                                         world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_data_parallel(plain):
    assert classes(check(nn.DataParallel(Net()), BATCHES, loss)) == plain


def test_distributed_data_parallel(plain, alone):
    net = nn.parallel.DistributedDataParallel(Net(), find_unused_parameters=True)
    assert classes(check(net, BATCHES, loss)) == plain
    net(BATCHES[0]).sum().backward()  # and it still trains


@pytest.mark.skipif(not hasattr(torch, "compile"), reason="torch.compile came with torch 2.0")
def test_compiled(plain):
    compiled = torch.compile(Net(), backend="eager")
    assert classes(check(compiled, BATCHES, loss)) == plain
    assert classes(check(nn.DataParallel(compiled), BATCHES, loss)) == plain


@pytest.mark.skipif(version() < OLDEST, reason="torch.compiler.set_stance came with torch 2.6")
def test_compiled_in_place(plain):
    net = Net()
    net.compile(backend="eager")
    assert classes(check(net, BATCHES, loss)) == plain


def test_peft():
    peft = pytest.importorskip("peft")
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adapted = peft.get_peft_model(net, peft.LoraConfig(r=2, target_modules=["0"]))
    answer = check(adapted, BATCHES, loss)
    found = classes(answer)
    assert found["2.weight"] == found["0.base_layer.weight"] == "frozen"
    assert found["0.lora_A.default.weight"] == found["0.lora_B.default.weight"] == "always"
    text = parse(export(adapted, BATCHES, loss))
    assert text.metadata["ddpc.module"] == "model.base_model.model"
    assert adapted.base_model.model.get_parameter("0.lora_A.default.weight") is not None


@pytest.mark.skipif(version() >= OLDEST, reason="this torch can")
def test_export_of_an_old_torch_says_the_way_out():
    with pytest.raises(Error, match="(?s)needs torch 2.6.*--via=record") as caught:
        export(Net(), BATCHES, loss, via="export")
    assert caught.value.code == 2


@pytest.mark.skipif(version() < OLDEST, reason="needs torch 2.6")
class TestViaExport:
    def test_the_same_answer_with_the_users_lines(self, plain):
        text = export(Net(), BATCHES, loss, via="export")
        assert classes(check(Net(), BATCHES, loss, via="export")) == plain
        line = 1 + next(i for i, l in enumerate(open(__file__)) if "# the line of the cut" in l)
        assert f'reason = "no_grad", source = "python/tests/test_wrappers.py:{line}"' in text.replace("tests/python", "python") \
            or f'test_wrappers.py:{line}"' in text
        assert "eval_with_key" not in text

    def test_several_batches_and_ties(self, plain):
        text = parse(export(Net(), [torch.ones(3, 4), torch.ones(5, 4)], loss, via="export"))
        assert text.ties() == {"tied.weight": "body.weight"} and len(text.paths()) == 1

    def test_what_cannot_be_exported_is_said(self):
        class Chooses(Net):
            def forward(self, x):
                return super().forward(x if x.sum() > 0 else x + 1)  # torch.export cannot know

        with pytest.raises(Error, match="(?s)cannot export the module at .*test_wrappers.py:.*--via=record") as caught:
            export(Chooses(), BATCHES, loss, via="export")
        assert caught.value.code == 1
        assert classes(check(Chooses(), BATCHES, loss))


@pytest.mark.skipif(not hasattr(torch, "cond"), reason="torch.cond comes with torch 2")
def test_cond_is_one_call_whose_branches_all_get_gradients():
    """Autograd gives the branch that did not run zeros, so its parameters count as used."""

    class Chooses(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = (torch.nn.Linear(2, 2) for _ in range(3))

        def forward(self, x):
            h = self.a(x)
            return torch.cond(h.sum() > 0, lambda t: self.b(t), lambda t: self.c(t), (h,))

    answer = check(Chooses(), [(torch.ones(1, 2),)], lambda y, _: y.sum())
    assert {p["class"] for p in answer["steps"][0]["parameters"]} == {"always"}


@pytest.mark.skipif(not hasattr(torch, "compile"), reason="torch.compile comes with torch 2")
def test_a_compiled_function_of_a_module_runs_as_written():
    class Calls(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(2, 2)
            self.f = torch.compile(lambda x: x.sin(), backend="eager")

        def forward(self, x):
            return self.f(self.a(x))

    text = export(Calls(), [(torch.ones(1, 2),)], lambda y, _: y.sum())
    assert "torch.sin" in text and "Compiled" not in text
