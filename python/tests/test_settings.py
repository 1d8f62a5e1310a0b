"""The advice of a check, taken: stock DistributedDataParallel on two ranks (gloo) runs 20 steps with what `ddp_settings`
says, and where that is the flag, fails or hangs without it."""

import warnings

import pytest
import ranks
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ddpc
from ddpc import command
from ddpc.torch import check, ddp_settings
from ddpc.torch.settings import freeze

STEPS = 20


def linear(n=4, m=4):
    return nn.Linear(n, m)


class AllUsed(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = linear(), linear()

    def forward(self, x, i):
        return self.b(self.a(x).relu())


class DeadHead(AllUsed):
    """A head whose output the loss does not read."""

    def __init__(self):
        super().__init__()
        self.head = linear()

    def forward(self, x, i):
        y = self.b(self.a(x))
        return y, self.head(y)


class NeverCalled(AllUsed):
    def __init__(self):
        super().__init__()
        self.spare, self.token = linear(), nn.Parameter(torch.zeros(4))


class Detached(AllUsed):
    """A teacher behind detach()."""

    def forward(self, x, i):
        return self.b(x) - self.a(x).detach()


class Averaged(AllUsed):
    """A target computed without gradients."""

    def forward(self, x, i):
        with torch.no_grad():
            target = self.a(x)
        return (self.b(x) - target) ** 2


class FrozenBase(AllUsed):
    """A low-rank adapter beside a frozen layer."""

    def __init__(self):
        super().__init__()
        self.a.requires_grad_(False)
        self.down, self.up = nn.Linear(4, 1, bias=False), nn.Linear(1, 4, bias=False)

    def forward(self, x, i):
        return self.b(self.a(x) + self.up(self.down(x)))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(8, 4), nn.Linear(4, 8, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, x, i):
        return self.out(self.embed(x.abs().long() % 8))


class Norms(nn.Module):
    """Buffers, and a norm without a use for its bias."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(linear(), nn.BatchNorm1d(4), nn.ReLU(), linear())
        self.scale = nn.LayerNorm(4)

    def forward(self, x, i):
        return self.net(x) * self.scale.weight


class Skipping(AllUsed):
    """A layer that is left out in every other step, on all ranks alike."""

    def forward(self, x, i):
        h = self.a(x)
        return h if i % 2 else self.b(h)


class Routed(nn.Module):
    """Two experts, one of which takes a batch."""

    def __init__(self):
        super().__init__()
        self.gate, self.experts = linear(), nn.ModuleList([linear(), linear()])

    def forward(self, x, i):
        return self.experts[i // 2 % 2](self.gate(x))


class SkippingAndDead(Skipping):
    def __init__(self):
        super().__init__()
        self.spare = linear()


class Turns(nn.Module):
    """A generator and a discriminator under one wrapper, trained in turns."""

    def __init__(self):
        super().__init__()
        self.gen, self.dis = linear(), linear(4, 1)

    def forward(self, x, i):
        fake = self.gen(x)
        return self.dis(fake.detach() if i % 2 else fake)


def total(output, *_):
    return (output[0] if isinstance(output, tuple) else output).sum()


def batch(i, rank=0):
    return torch.full((4, 4), 1.0 + rank + i % 3), i


def advice(model):
    if isinstance(model, Turns):
        return check(model, steps={"d": ([batch(1)], total), "g": ([batch(0)], total)})
    return check(model, [batch(i) for i in range(4)], total)


FREE = [AllUsed, DeadHead, NeverCalled, Detached, Averaged, FrozenBase, Tied, Norms]
FLAGGED = [Skipping, Routed, SkippingAndDead, Turns]


def train(kind, rank, flag, only_one_rank=False):
    """20 steps as the advice has them, with or without the flag."""
    torch.manual_seed(0)
    model = kind()
    settings = ddp_settings(advice(model))
    assert settings.find_unused_parameters == (kind in FLAGGED)
    ddp = DistributedDataParallel(settings.apply(model), find_unused_parameters=flag)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    for i in range(STEPS):
        turn = rank if only_one_rank and i == STEPS - 2 else i - i % 4 if only_one_rank else i
        optimizer.zero_grad()
        total(ddp(batch(i, rank)[0], turn)).backward()
        optimizer.step()
    for p in model.parameters():
        if p.requires_grad:
            both = [torch.empty_like(p) for _ in range(2)]
            torch.distributed.all_gather(both, p.detach())
            assert torch.equal(*both)
    return "ran"


def trained(rank):
    """What became of each module: with what its verdict says, and without the flag where it asks for it."""
    outcomes = {}
    for kind in FREE + FLAGGED:
        for flag in {kind in FLAGGED, False}:
            try:
                outcomes[kind.__name__, flag] = train(kind, rank, flag)
            except Exception as error:  # on both ranks alike, so that the next can run
                outcomes[kind.__name__, flag] = f"{type(error).__name__}: {error}"
    return outcomes


@pytest.fixture(scope="module")
def outcomes():
    return ranks.run(trained, deadline=300)


@pytest.mark.parametrize("kind", FREE)
def test_runs_without_the_flag(outcomes, kind):
    assert [o[kind.__name__, False] for o in outcomes] == ["ran", "ran"]


@pytest.mark.parametrize("kind", FLAGGED)
def test_runs_with_the_flag_and_fails_without(outcomes, kind):
    assert [o[kind.__name__, True] for o in outcomes] == ["ran", "ran"]
    for outcome in outcomes:
        assert "Expected to have finished reduction in the prior iteration" in outcome[kind.__name__, False]


def routed_by_rank(rank, flag):
    return train(Skipping, rank, flag, only_one_rank=True)


@pytest.mark.parametrize("flag", [True, False])
def test_branch_on_one_rank_only(flag):
    outcomes = ranks.run(routed_by_rank, flag, deadline=120)
    if flag:
        assert outcomes == ["ran", "ran"]
    else:
        assert "Expected to have finished reduction" in outcomes[1]
        assert outcomes[0] == ranks.HUNG or outcomes[0].startswith("RuntimeError")


def test_words_of_the_frameworks():
    needed = ddp_settings(advice(SkippingAndDead()))
    assert needed.ddp == needed.accelerate == needed.lightning == {"find_unused_parameters": True, "static_graph": False}
    assert needed.trainer == {"ddp_find_unused_parameters": True}
    assert needed.freeze == ["spare.weight", "spare.bias"] and needed.evidence == "observed"
    assert ddp_settings(advice(AllUsed())).trainer == {"ddp_find_unused_parameters": False}


def test_a_step_of_its_own():
    said = advice(Turns())
    assert said["verdict"] == "flag_needed" and ddp_settings(said).find_unused_parameters
    assert ddp_settings(said).freeze == []
    d = ddp_settings(said, step="d")
    assert not d.find_unused_parameters and d.freeze == ["gen.weight", "gen.bias"]
    with pytest.raises(ddpc.Error, match="no step 'e'; it has d, g"):
        ddp_settings(said, step="e")


PROVED = """<ir_version: 10, opset_import: ["" : 21, "ddpc" : 1]>
net (float[4,4] x) => (float[] loss)
<float[4,4] "a.weight", float[4,4] "b.weight">
{ y = MatMul (x, "a.weight")
  h = %s
  loss = ReduceSum <keepdims = 0> (h) }
"""


def test_static_graph_only_where_the_check_vouches_for_it():
    proved = command.check(PROVED % 'MatMul (y, "b.weight")')
    assert not ddp_settings(proved).static_graph
    settings = ddp_settings(proved, static_graph=True)
    assert settings.ddp == {"find_unused_parameters": False, "static_graph": True}
    with pytest.raises(ddpc.Error, match="TrainingArguments cannot set static_graph"):
        settings.trainer
    with pytest.raises(ddpc.Error, match="does not say that static_graph=True is safe"):
        ddp_settings(advice(Skipping()), static_graph=True)


def test_no_advice_from_what_is_unknown():
    text = PROVED.replace('<float[4,4] "a.weight", float[4,4] "b.weight">',
                          '<float[4,4] "a.weight" = ["location": "w"], float[4,4] "b.weight" = ["location": "w"]>')
    with pytest.raises(ddpc.Error, match="the verdict is unknown: the model may lack parameters"):
        ddp_settings(command.check(text % 'MatMul (y, "b.weight")'))
    with pytest.raises(ddpc.Error, match="no parameter gets a gradient"):
        ddp_settings(command.check("a.weight float32 [3] false\n", "--from-list"))
    with pytest.raises(ddpc.Error, match="a plan has no verdict"):
        ddp_settings({"steps": [{"name": "train", "parameters": []}]})


def test_freeze_is_all_or_nothing_and_before_wrapping():
    model = NeverCalled()
    with pytest.raises(ddpc.Error, match="no parameter spare.wieght; near: spare.weight"):
        freeze(model, ["token", "spare.wieght"])
    assert model.token.requires_grad
    freeze(nn.DataParallel(model), ["module.token"])
    assert not model.token.requires_grad and model.spare.weight.requires_grad
    with pytest.raises(ddpc.Error, match="freeze before wrapping"):
        ddp_settings(advice(NeverCalled())).apply(nn.DataParallel(model))


class Priced(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.price, self.spare = (torch.nn.Linear(2, 2) for _ in range(3))

    def forward(self, x, price=False):
        y = self.body(x)
        self.spare(y)
        return y + self.price(x) if price else y


def test_freezing_what_a_branch_that_was_not_taken_may_use_warns():
    x = torch.ones(1, 2)
    said = check(Priced(), [(x,)], lambda y, *_: y.sum())
    settings = ddp_settings(said)
    assert settings.unread == ["price.weight", "price.bias"] and "spare.weight" in settings.freeze
    with pytest.warns(UserWarning, match=r"price\.weight, price\.bias, which no recorded batch used[\s\S]*if price"):
        settings.apply(Priced())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both = check(Priced(), [(x,), (x, True)], lambda y, *_: y.sum())
        ddp_settings(both).apply(Priced())
