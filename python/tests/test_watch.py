"""`watch` over stock DistributedDataParallel on two ranks (gloo): what is wrong is named in its own step, what is right
passes. Each scenario is a function that runs on both ranks, one after another in the same two processes; those after
which a rank is gone have processes of their own."""

import dataclasses
import json
import traceback
import warnings

import pytest
import ranks
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import ddpc
from ddpc import command
from ddpc.torch import GradientError, check, watch

SCENARIOS = {}


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


class Net(nn.Module):
    """Two layers; what of them is used is a matter of switches."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Linear(3, 3, bias=False)
        self.b = nn.Linear(3, 3, bias=False)
        self.skip = False
        self.reentrant = 0  # checkpoints that use `a`

    def forward(self, x):
        if not self.reentrant:
            x = self.a(x)
        for _ in range(self.reentrant):
            x = checkpoint(lambda t: self.a(t), x, use_reentrant=True)
        return x if self.skip else self.b(x)


def data(rank=0):
    return torch.full((2, 3), float(rank + 1), requires_grad=True)


def total(output, *_):
    return output.sum()


ALWAYS = check(Net(), [(data(),)], total)


def conditional():
    net = Net()
    net.a.register_forward_hook(lambda *_: setattr(net, "skip", not net.skip))
    return check(net, [(data(),), (data(),)], total)


def classed(**classes):
    """The check of a Net as written by hand: guards `true`, `false` or a branch."""
    lines = [f"{name}.weight float32 [3,3] {classes.get(name, 'true')}" for name in ("a", "b")]
    return command.check("\n".join(lines) + "\n", "--from-list")


def wrapped(said=ALWAYS, on="raise", net=None, **kwargs):
    ddp = DistributedDataParallel(net or Net(), **kwargs)
    return ddp, watch(ddp, said, on)


def findings(function):
    with pytest.raises(GradientError) as caught:
        function()
    for finding in caught.value.findings:
        assert finding.parameter in str(caught.value) and f"rank {finding.rank}" in str(caught.value)
    return [(f.kind, f.parameter, f.rank, f.number) for f in caught.value.findings], str(caught.value)


def averaged(p):
    both = [torch.empty_like(p.grad) for _ in range(2)]
    torch.distributed.all_gather(both, p.grad)
    return torch.equal(*both)


@scenario
def nothing_is_wrong(rank):
    for kwargs in ({}, {"find_unused_parameters": True}, {"static_graph": True}, {"gradient_as_bucket_view": True}):
        ddp, watcher = wrapped(**kwargs)
        for _ in range(4):
            ddp(data(rank)).sum().backward()
            assert averaged(ddp.module.a.weight)
        report = watcher.report()
        assert report["steps"] == {"train": 4} and report["findings"] == [] and report["rank"] == rank


@scenario
def gradient_penalty(rank):
    """torch.autograd.grad accumulates nothing, so it is no step."""
    for alone in (False, True):
        ddp, watcher = wrapped()
        for _ in range(4):
            x = data(rank)
            output = ddp(x).pow(2)
            (slope,) = torch.autograd.grad(output.sum(), x, create_graph=True)
            (slope.pow(2).sum() + (0 if alone else output.sum())).backward()
            assert averaged(ddp.module.a.weight)
        report = watcher.report()
        assert report["steps"] == {"train": 4} and report["findings"] == [] and report["outside"] == 0
        watcher.close()


@scenario
def nothing_of_the_model_is_used(rank):
    """A backward without any gradient is told from torch.autograd.grad when the next forward begins."""
    ddp, watcher = wrapped()
    ddp(data(rank)).sum().backward()
    x = data(rank)
    torch.autograd.grad(ddp(x).sum(), x)
    found, _ = findings(lambda: ddp(x))
    assert found == [("missing", "a.weight", rank, 2), ("missing", "b.weight", rank, 2)]
    ddp(data(rank)).sum().backward()
    assert watcher.report()["steps"] == {"train": 3} and len(watcher.report()["findings"]) == 2


@scenario
def unused_layer(rank):
    ddp, _ = wrapped()
    for number in (1, 2):
        ddp(data(rank)).sum().backward()
    ddp.module.skip = True
    found, text = findings(lambda: ddp(data(rank)).sum().backward())
    assert found == [("missing", "b.weight", rank, 3)]
    assert "test_watch.py:" in text and "find_unused_parameters=True" in text


@scenario
def layer_that_never_trains(rank):
    ddp, _ = wrapped(classed(b="false"))
    ddp.module.skip = True
    found, text = findings(lambda: ddp(data(rank)).sum().backward())
    assert found == [("missing", "b.weight", rank, 1)] and "freeze what never trains" in text


@scenario
def frozen_layer_is_not_missing(rank):
    net = Net()
    net.skip = True
    net.b.requires_grad_(False)
    ddp, watcher = wrapped(classed(b="false"), net=net)
    for _ in range(3):
        ddp(data(rank)).sum().backward()
    assert watcher.report()["steps"] == {"train": 3}


@scenario
def extra_use(rank):
    ddp, watcher = wrapped()
    ddp(data(rank)).sum().backward()
    ddp.module.reentrant = 2
    found, text = findings(lambda: ddp(data(rank)).sum().backward())
    assert found == [("extra", "a.weight", rank, 2)] and "reentrant" in text


@scenario
def reentrant_checkpoint_once(rank):
    ddp, watcher = wrapped()
    ddp.module.reentrant = 1
    for _ in range(3):
        ddp(data(rank)).sum().backward()
        assert averaged(ddp.module.a.weight)
    assert watcher.report()["steps"] == {"train": 3}


@scenario
def static_graph_counts_as_in_the_first_step(rank):
    ddp, watcher = wrapped(static_graph=True)
    ddp.module.reentrant = 2
    for _ in range(3):
        ddp(data(rank)).sum().backward()
    assert watcher.report()["steps"] == {"train": 3}
    ddp.module.reentrant = 3
    assert findings(lambda: ddp(data(rank)).sum().backward())[0] == [("extra", "a.weight", rank, 4)]


@scenario
def static_graph_that_changes(rank):
    ddp, watcher = wrapped(classed(b="turn"), static_graph=True)
    for _ in range(2):
        ddp(data(rank)).sum().backward()
    ddp.module.skip = True
    found, text = findings(lambda: ddp(data(rank)).sum().backward())
    assert found == [("missing", "b.weight", rank, 3)] and "static_graph" in text


@scenario
def static_graph_that_grows(rank):
    ddp, watcher = wrapped(classed(b="turn"), static_graph=True)
    ddp.module.skip = True
    for _ in range(2):
        ddp(data(rank)).sum().backward()
    ddp.module.skip = False
    assert findings(lambda: ddp(data(rank)).sum().backward())[0] == [("extra", "b.weight", rank, 3)]


@scenario
def conditional_with_the_flag(rank):
    ddp, watcher = wrapped(conditional(), find_unused_parameters=True)
    for skip in (False, True, True):
        ddp.module.skip = skip != bool(rank)  # each rank its own way
        ddp(data(rank)).sum().backward()
    assert watcher.report()["conditional"] == {"b.weight": {"present": 1 + rank, "absent": 2 - rank}}


@scenario
def conditional_without_the_flag(rank):
    ddp, watcher = wrapped(conditional())
    ddp(data(rank)).sum().backward()
    ddp.module.skip = True
    found, text = findings(lambda: ddp(data(rank)).sum().backward())
    assert found == [("missing", "b.weight", rank, 2)] and "conditional: only in batch " in text


@scenario
def always_is_always_with_the_flag(rank):
    ddp, watcher = wrapped(find_unused_parameters=True)
    ddp.module.skip = True
    found, text = findings(lambda: ddp(data(rank)).sum().backward())
    assert found == [("missing", "b.weight", rank, 1)] and "waits" not in text


@scenario
def unexpected(rank):
    for kwargs in ({}, {"find_unused_parameters": True}, {"static_graph": True}):
        ddp, _ = wrapped(classed(b="false"), **kwargs)
        found, text = findings(lambda: ddp(data(rank)).sum().backward())
        assert found == [("unexpected", "b.weight", rank, 1)] and "never: has a guard that is never true" in text


@scenario
def several_forwards_and_one_backward(rank):
    ddp, watcher = wrapped()
    for _ in range(2):
        first = ddp(data(rank)).sum()
        ddp.eval()
        ddp(data(rank))
        with torch.no_grad():
            ddp(data(rank))
        ddp.train()
        (first + ddp(data(rank)).sum()).backward()
        assert averaged(ddp.module.a.weight)
    assert watcher.report()["steps"] == {"train": 2}


@scenario
def second_backward(rank):
    ddp, _ = wrapped()
    loss = ddp(data(rank)).sum()
    loss.backward(retain_graph=True)
    found, text = findings(loss.backward)
    assert found == [("unaveraged", n, rank, 2) for n in ("a.weight", "b.weight")]
    assert not averaged(ddp.module.a.weight)  # that is what the message says


@scenario
def two_forwards_and_two_backwards(rank):
    ddp, _ = wrapped()
    losses = [ddp(data(rank)).sum() for _ in range(2)]
    losses[0].backward()
    assert findings(losses[1].backward)[0][0][0] == "unaveraged"


@scenario
def no_sync_windows(rank):
    ddp, watcher = wrapped()
    for _ in range(2):
        with ddp.no_sync():
            for skip in (False, True):
                ddp.module.skip = skip
                ddp(data(rank)).sum().backward()
        ddp.module.skip = False
        ddp(data(rank)).sum().backward()
        assert averaged(ddp.module.a.weight)
    assert watcher.report()["no_sync"] == 4 and watcher.report()["steps"] == {"train": 2}
    ddp.module.skip = True  # DDP waits for b, although the window has a gradient of it
    with ddp.no_sync():
        ddp(data(rank)).sum().backward()
    found, _ = findings(lambda: ddp(data(rank)).sum().backward())
    assert found == [("missing", "b.weight", rank, 3)]


@scenario
def unexpected_in_no_sync(rank):
    ddp, _ = wrapped(classed(b="false"), find_unused_parameters=True)
    with ddp.no_sync():
        assert findings(lambda: ddp(data(rank)).sum().backward())[0] == [("unexpected", "b.weight", rank, 1)]


@scenario
def requires_grad_switched_off(rank):
    ddp, _ = wrapped()
    ddp(data(rank)).sum().backward()
    ddp.module.b.requires_grad_(False)
    found, text = findings(lambda: ddp(data(rank)).sum().backward())
    assert found == [("missing", "b.weight", rank, 2)] and "requires_grad is False" in text


@scenario
def requires_grad_switched_off_and_on(rank):
    ddp, watcher = wrapped(conditional(), find_unused_parameters=True)
    for trains in (True, False, True):
        ddp.module.b.requires_grad_(trains)
        ddp(data(rank)).sum().backward()
        assert averaged(ddp.module.a.weight)
    assert watcher.report()["conditional"] == {"b.weight": {"present": 2, "absent": 1}}


@scenario
def requires_grad_switched_on_after_wrapping(rank):
    net = Net()
    net.b.requires_grad_(False)
    ddp, _ = wrapped(classed(b="turn"), net=net)
    ddp(data(rank)).sum().backward()
    net.b.requires_grad_(True)
    found, text = findings(lambda: ddp(data(rank)).sum().backward())
    assert found == [("unaveraged", "b.weight", rank, 2)] and "after DistributedDataParallel was built" in text
    assert not averaged(net.b.weight)


@scenario
def switched_before_watch(rank):
    ddp = DistributedDataParallel(Net())
    ddp.module.b.requires_grad_(False)
    with pytest.raises(ddpc.Error, match="averages 2 parameters, but 1 require grad"):
        watch(ddp, ALWAYS)


@scenario
def losses_of_the_parameters_alone(rank):
    ddp, watcher = wrapped()
    with pytest.warns(UserWarning, match="did not come through the forward"):
        (ddp.module.a.weight ** 2).sum().backward()
    ddp(data(rank)).sum().backward()
    assert averaged(ddp.module.a.weight)
    assert watcher.report()["outside"] == 1 and watcher.report()["steps"] == {"train": 1}
    loss = ddp(data(rank)).sum()
    (ddp.module.a.weight ** 2).sum().backward()  # while DDP counts
    assert findings(loss.backward)[0] == [("extra", "a.weight", rank, 2)]


@scenario
def forward_of_the_module_inside(rank):
    ddp, watcher = wrapped()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            ddp.module(data(rank)).sum().backward()
    assert len([w for w in said if "call the wrapper" in str(w.message)]) == 1
    assert not averaged(ddp.module.a.weight) and watcher.report()["outside"] == 2


class Blocked(torch.autograd.Function):
    """Passes its first input on; the second gets an undefined gradient."""

    @staticmethod
    def forward(ctx, x, w):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2, None


@scenario
def undefined_gradients_count(rank):
    class Undefined(Net):
        def forward(self, x):
            return Blocked.apply(self.a(x), self.b.weight)

    ddp, watcher = wrapped(net=Undefined())
    for _ in range(3):  # DDP counts them, too: it goes on
        ddp(data(rank)).sum().backward()
    assert watcher.report()["steps"] == {"train": 3} and watcher.report()["findings"] == []


@scenario
def outputs_of_all_forms(rank):
    @dataclasses.dataclass
    class Result:
        loss: torch.Tensor
        name: str = "x"

    class Opaque:
        def __init__(self, loss):
            self.inner = loss

    forms = {"tuple": lambda y: (None, [y]), "dict": lambda y: {"y": {"z": y}}, "dataclass": Result, "opaque": Opaque}
    read = {"tuple": lambda o: o[1][0], "dict": lambda o: o["y"]["z"], "dataclass": lambda o: o.loss,
            "opaque": lambda o: o.inner}
    for form, make in forms.items():
        class Formed(Net):
            def forward(self, x):
                return make(super().forward(x))

        ddp, watcher = wrapped(net=Formed())
        for _ in range(2):
            read[form](ddp(data(rank))).mul_(2).sum().backward()
        assert watcher.report()["steps"] == {"train": 2}, form
        ddp.module.skip = True
        assert findings(lambda: read[form](ddp(data(rank))).sum().backward())[0] == [("missing", "b.weight", rank, 3)]


class Pair(nn.Module):
    """A generator and a discriminator, with the turn as an argument."""

    def __init__(self):
        super().__init__()
        self.gen, self.dis = nn.Linear(3, 3, bias=False), nn.Linear(3, 1, bias=False)

    def forward(self, x, turn):
        fake = self.gen(x)
        return self.dis(fake.detach() if turn == "d" else fake)


def pair_check():
    def step(turn):
        return [(torch.ones(2, 3), turn)], total

    return check(Pair(), steps={"d": step("d"), "g": step("g")})


@scenario
def steps_of_a_gan(rank):
    said = pair_check()
    assert [p["class"] for p in said["steps"][0]["parameters"]] == ["never", "always"]
    ddp = DistributedDataParallel(Pair(), find_unused_parameters=True)
    with watch(ddp, said) as watcher:
        for _ in range(2):
            for turn in ("d", "g"):
                watcher.step(turn)
                ddp(torch.ones(2, 3), turn).sum().backward()
        assert watcher.report()["steps"] == {"d": 2, "g": 2}
        found, text = findings(lambda: ddp(torch.ones(2, 3), "d").sum().backward())  # of the other step
        assert found == [("missing", "gen.weight", rank, 5)] and "step 5 (g)" in text
        watcher.step("")
        for turn in ("d", "g"):
            ddp(torch.ones(2, 3), turn).sum().backward()
        assert watcher.report()["conditional"] == {"gen.weight": {"present": 1, "absent": 1}}
        with pytest.raises(ddpc.Error, match="no step 'e'; it has d, g"):
            watcher.step("e")


@scenario
def one_wrapper_for_each_part(rank):
    said = command.check("gen.weight float32 [3,3] !d\ndis.weight float32 [1,3]\n", "--from-list")
    pair = Pair()
    gen, dis = DistributedDataParallel(pair.gen), DistributedDataParallel(pair.dis)
    with pytest.raises(ddpc.Error, match='say prefix="gen." or prefix="dis."'):
        watch(dis, said)
    seen = [watch(gen, said, prefix="gen."), watch(dis, said, prefix="dis.")]
    for _ in range(2):
        dis(gen(data(rank))).sum().backward()
    assert [w.report()["steps"] for w in seen] == [{"train": 2}] * 2
    pair.dis.requires_grad_(False)  # no gradient at all: DDP does not wait, but the check says always
    found, _ = findings(lambda: dis(gen(data(rank))).sum().backward())
    assert found == [("missing", "weight", rank, 3)]


@scenario
def tied_parameters(rank):
    class Tied(Net):
        def __init__(self):
            super().__init__()
            self.b.weight = self.a.weight

    for name in ("a", "b"):
        said = command.check(f"{name}.weight float32 [3,3]\n", "--from-list")
        ddp, watcher = wrapped(said, net=Tied())
        for _ in range(2):
            ddp(data(rank)).sum().backward()
        assert watcher.report()["steps"] == {"train": 2}


@scenario
def warnings_instead(rank):
    ddp, watcher = wrapped(on="warn", find_unused_parameters=True)
    ddp.module.skip = True
    for number in (1, 2):
        with pytest.warns(UserWarning, match=f"rank {rank}, step {number}(.|\n)*b.weight"):
            ddp(data(rank)).sum().backward()
    assert [f["number"] for f in watcher.report()["findings"]] == [1, 2]
    json.dumps(watcher.report())


@scenario
def warnings_have_an_end(rank):
    ddp, watcher = wrapped(on="warn", find_unused_parameters=True)
    ddp.module.skip = True
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(1003):
            ddp(data(rank)).sum().backward()
    texts = [str(w.message) for w in said if "no gradient in this backward" in str(w.message)]
    assert len(texts) == 1000 and ["its last" in t for t in texts] == [False] * 999 + [True]
    assert len(watcher.report()["findings"]) == 1000 and watcher.report()["steps"] == {"train": 1003}


@scenario
def warning_and_what_ddp_then_does(rank):
    ddp, watcher = wrapped(on="warn")
    ddp.module.skip = True
    with pytest.warns(UserWarning, match="its next forward fails"):
        ddp(data(rank)).sum().backward()
    with pytest.raises(RuntimeError, match="Expected to have finished reduction"):
        ddp(data(rank))


@scenario
def after_an_error_in_backward(rank):
    ddp, watcher = wrapped()

    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        Broken.apply(ddp(Broken.apply(data(rank)))).sum().backward()
    ddp(data(rank)).sum().backward()
    assert watcher.report()["steps"] == {"train": 1} and averaged(ddp.module.a.weight)


@scenario
def closed(rank):
    ddp, watcher = wrapped(find_unused_parameters=True)
    watcher.close()
    ddp.module.skip = True
    for _ in range(2):
        ddp(data(rank)).sum().backward()
    assert watcher.report()["steps"] == {}
    assert not ddp._forward_hooks and not ddp._forward_pre_hooks
    again = watch(ddp, ALWAYS)
    found, _ = findings(lambda: ddp(data(rank)).sum().backward())
    assert len(found) == 1 and again is not watcher


@scenario
def compiled(rank):
    if not hasattr(torch, "compile"):
        return
    for backend in ("eager", "aot_eager"):
        inside = DistributedDataParallel(torch.compile(Net(), backend=backend))
        around = torch.compile(DistributedDataParallel(Net()), backend=backend)
        layer = Net()
        layer.b = torch.compile(layer.b, backend=backend)
        for ddp in (inside, around, DistributedDataParallel(layer)):
            watcher = watch(ddp, ALWAYS)
            for _ in range(3):
                ddp(data(rank)).sum().backward()
            assert watcher.report()["steps"] == {"train": 3}, (backend, type(ddp))
            net = ddp.module
            getattr(net, "_orig_mod", net).skip = True
            found, _ = findings(lambda: ddp(data(rank)).sum().backward())
            assert found == [("missing", "b.weight", rank, 4)]


def run_all(rank):
    outcomes = {}
    for name, function in SCENARIOS.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                function(rank)
            outcomes[name] = "passed"
        except BaseException:
            outcomes[name] = traceback.format_exc()
    return outcomes


@pytest.fixture(scope="module")
def outcomes():
    return ranks.run(run_all, deadline=300)


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(outcomes, name):
    for rank, outcome in enumerate(outcomes):
        assert isinstance(outcome, dict), outcome
        assert outcome[name] == "passed", f"rank {rank}: {outcome[name]}"


def branch_on_one_rank(rank):
    ddp, _ = wrapped()
    for number in range(3):
        ddp.module.skip = rank == 1 and number == 1
        ddp(data(rank)).sum().backward()


def test_branch_on_one_rank_only():
    """The rank that lacks the gradient names it; the other waits for it in DDP's all-reduce, until it is gone."""
    other, lacking = ranks.run(branch_on_one_rank, deadline=120)
    assert lacking.startswith("GradientError: rank 1, step 2\n  no gradient in this backward:\n    b.weight")
    assert other.startswith("RuntimeError") and "b.weight" not in other


# Without ranks: a check, in all its forms, against a module's names.


def test_the_check_of_another_module():
    from ddpc.torch.expect import expect

    said = command.check("a.weight float32 [3,3]\nc.weight float32 [3,3]\nnorm float32 [3]\n", "--from-list")
    net = Net()
    net.register_buffer("norm", torch.ones(3))
    with pytest.raises(ddpc.Error) as caught:
        expect(net, said)
    assert "b.weight (near: c.weight)" in str(caught.value) and "norm (a buffer of the module)" in str(caught.value)
    with pytest.raises(ddpc.Error, match=r"a.weight has shape \[3, 3\] in the module and \[4, 3\] in the check"):
        expect(Net(), command.check("a.weight float32 [4,3]\nb.weight float32 [3,3]\n", "--from-list"))


def test_all_forms_of_a_check(tmp_path):
    from ddpc.torch import export
    from ddpc.torch.expect import expect

    text = export(Net(), [(data(),)], total)
    (tmp_path / "m.ir").write_text(text)
    (tmp_path / "m.json").write_text(json.dumps(ALWAYS))
    command.ask([tmp_path / "m.ir", "-o", tmp_path / "m.plan"])
    for form in (ALWAYS, text, tmp_path / "m.ir", str(tmp_path / "m.json"), tmp_path / "m.plan"):
        found = expect(Net(), form)
        assert found.names == ["a.weight", "b.weight"] and [r.kind for r in found.steps["train"]] == ["always"] * 2
    (tmp_path / "bad.json").write_text('{"steps": ')
    with pytest.raises(ddpc.Error, match="is not the JSON of a check"):
        expect(Net(), tmp_path / "bad.json")
    with pytest.raises(ddpc.Error, match="has no steps with parameters"):
        expect(Net(), {"verdict": "unknown"})
    with pytest.raises(ddpc.Error, match="cannot be read"):
        expect(Net(), "nosuch.json")


def test_what_is_not_wrapped():
    with pytest.raises(ddpc.Error, match="takes a DistributedDataParallel module, not Net"):
        watch(Net(), ALWAYS)
