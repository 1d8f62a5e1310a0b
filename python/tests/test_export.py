"""What `ddpc.torch.export` writes, what it leaves alone, and what it refuses."""

import copy
import dataclasses
import random
import re

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import ddpc  # noqa: E402
import ddpc.torch  # noqa: E402
from ddpc import command  # noqa: E402


class Net(nn.Module):
    """An embedding tied to the decoder, a pooler that no loss reads, a layer that nothing reads."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 8)
        self.norm = nn.BatchNorm1d(8)
        self.decode = nn.Linear(8, 10, bias=False)
        self.decode.weight = self.embed.weight
        self.pool = nn.Linear(8, 8)
        self.spare = nn.Linear(2, 2)

    def forward(self, ids, scale=1.0):
        h = self.norm(self.embed(ids).mean(1))
        if scale != 1.0:
            h = self.spare(h[:, :2]) * scale
        return {"logits": self.decode(h), "pooled": self.pool(h)}


def loss(output, ids, *rest):
    return F.cross_entropy(output["logits"], ids[:, 0])


def batch(n=5):
    return torch.randint(0, 10, (4, n)),


def classes(answer, step=0):
    return {p["name"]: p["class"] for p in answer["steps"][step]["parameters"] if p["kind"] == "parameter"}


def test_all_parameters_ties_and_buffers_are_declared():
    answer = ddpc.torch.check(Net(), [batch()], loss)
    assert answer["complete"] and answer["evidence"] == "observed"
    assert classes(answer) == {"embed.weight": "always", "norm.weight": "always", "norm.bias": "always",
                               "pool.weight": "never", "pool.bias": "never", "spare.weight": "never",
                               "spare.bias": "never"}
    assert {p["name"] for p in answer["steps"][0]["parameters"] if p["kind"] == "buffer"} >= {"norm.running_mean"}
    assert "decode.weight" in ddpc.torch.export(Net(), [batch()], loss)


def test_the_text_is_the_same_each_time_and_fmt_keeps_it():
    net, batches = Net(), [batch(), batch()]
    text = ddpc.torch.export(net, batches, loss)
    assert text == ddpc.torch.export(net, batches, loss)
    formatted = command.ask(["fmt", "-"], text)
    assert command.check(formatted)["steps"] == command.check(formatted)["steps"]
    assert classes(command.check(formatted)) == classes(command.check(text))


def test_other_sizes_are_the_same_path():
    text = ddpc.torch.export(Net(), [batch(3), batch(5)], loss)
    assert "variant_" not in text and "observed, 2 batches" in text and "int64[4,?] ids" in text


def test_other_paths_are_variants():
    class Routed(nn.Module):
        def __init__(self):
            super().__init__()
            self.experts = nn.ModuleList(nn.Linear(2, 2) for _ in range(4))

        def forward(self, x, which):
            return self.experts[which](x)

    answer = ddpc.torch.check(Routed(), [(torch.ones(1, 2), i) for i in (0, 1, 0, 2)], lambda y, *_: y.sum())
    assert [classes(answer)[f"experts.{i}.weight"] for i in range(4)] == ["conditional"] * 3 + ["never"]
    guards = [p["guard"]["text"] for p in answer["steps"][0]["parameters"] if p["guard"]]
    assert set(guards) == {"variant_1", "!variant_1 && variant_2", "!variant_1 && !variant_2"}
    assert answer["verdict"] == "flag_needed"


def test_what_the_module_has_is_left_as_it_was():
    net, batches = Net(), [batch(), batch()]
    net.embed.weight.grad = torch.ones_like(net.embed.weight)
    before = copy.deepcopy(net.state_dict())
    torch.manual_seed(7)
    random.seed(7)
    want = torch.rand(1), random.random()
    torch.manual_seed(7)
    random.seed(7)
    ddpc.torch.export(net, batches, loss)
    assert (torch.rand(1), random.random()) == want
    assert all(torch.equal(before[k], v) for k, v in net.state_dict().items())
    assert torch.equal(net.embed.weight.grad, torch.ones(10, 8)) and net.pool.weight.grad is None
    assert net.training


def test_a_teacher_that_the_forward_pass_updates_is_put_back():
    class Teacher(nn.Module):
        def __init__(self):
            super().__init__()
            self.student = nn.Linear(2, 2)
            self.teacher = copy.deepcopy(self.student).requires_grad_(False)

        def forward(self, x):
            with torch.no_grad():
                for t, s in zip(self.teacher.parameters(), self.student.parameters()):
                    t.mul_(0.5).add_(s * 0.25)
            return self.student(x) - self.teacher(x)

    net = Teacher()
    before = net.teacher.weight.clone()
    answer = ddpc.torch.check(net, [(torch.ones(1, 2),)], lambda y, _: y.sum())
    assert classes(answer)["teacher.weight"] == "frozen" and classes(answer)["student.weight"] == "always"
    assert torch.equal(net.teacher.weight, before)


def test_an_exception_of_the_module_passes_and_leaves_no_trace():
    class Broken(nn.Module):
        def forward(self, x):
            raise KeyError("mine")

    apply = torch.autograd.Function.apply
    with pytest.raises(KeyError, match="mine"):
        ddpc.torch.export(Broken(), [(torch.ones(1),)], None)
    assert torch.autograd.Function.apply == apply


@dataclasses.dataclass
class Answer:
    first: torch.Tensor
    rest: list


@pytest.mark.parametrize("build, names", [
    (lambda y: y, ["output"]),
    (lambda y: (y, y + 1), ["output_0", "output_1"]),
    (lambda y: {"a b": y, "loss": y + 1}, ["a_b", "loss_2"]),
    (lambda y: Answer(y, [y * 2, {"deep": y * 3}]), ["output_first", "output_rest_0", "output_rest_1_deep"]),
])
def test_outputs_have_the_names_that_a_person_gives_them(build, names):
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x):
            return build(self.layer(x))

    text = ddpc.torch.export(Outer(), [(torch.ones(1, 2),)], lambda y, x: sum(t.sum() for t in tensors(y)))
    line = next(l for l in text.splitlines() if "=> (" in l)
    assert re.findall(r"float\S* (\w+)", line.split("=>")[1]) == ["loss", *names]


def tensors(thing):
    from ddpc.torch.record import tensors_in

    return tensors_in(thing)


def test_an_argument_may_be_called_as_a_parameter_is():
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.x, self.v1 = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))

        def forward(self, x, loss):
            return self.x * x + loss

    answer = ddpc.torch.check(Scale(), [(torch.ones(2), torch.ones(2))], lambda y, *_: y.sum())
    assert classes(answer) == {"x": "always", "v1": "never"}


def test_paths_may_return_other_things():
    class Either(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 3)

        def forward(self, x, which):
            return {"first": self.a(x)} if which else {"first": self.b(x), "second": self.b(x).double()}

    answer = ddpc.torch.check(Either(), [(torch.ones(1, 2), 0), (torch.ones(1, 2), 1)], lambda y, *_: y["first"].sum())
    assert classes(answer)["a.weight"] == classes(answer)["b.weight"] == "conditional"


def test_a_tensor_or_a_mapping_alone_is_one_batch():
    for b in (torch.ones(3, 2), {"input": torch.ones(3, 2)}):
        assert "observed, 1 batch" in ddpc.torch.export(nn.Linear(2, 1), b, lambda y, *a, **k: y.sum())


def test_batches_are_tensors_sequences_or_keywords():
    net = nn.Linear(2, 1)
    x = torch.ones(3, 2)
    for b in (x, (x,), [x], {"input": x}):
        assert classes(ddpc.torch.check(net, [b], lambda y, *a, **k: y.sum()))["weight"] == "always"


def test_without_a_loss_the_output_is_one_or_has_one():
    class Loss(nn.Module):
        def __init__(self, wrap):
            super().__init__()
            self.w, self.wrap = nn.Parameter(torch.ones(2)), wrap

        def forward(self, x):
            return self.wrap((self.w * x).sum())

    for wrap in (lambda v: v, lambda v: {"loss": v}, lambda v: type("Out", (), {"loss": v})()):
        assert classes(ddpc.torch.check(Loss(wrap), [(torch.ones(2),)]))["w"] == "always"


@pytest.mark.parametrize("arguments, says", [
    (([], loss), "there are no batches"),
    (([batch()], lambda o, *_: o["logits"]), r"the loss has shape \[4, 10\]; it must be a scalar"),
    (([batch()], lambda o, *_: 3.0), "the loss is a float, not a tensor"),
    (([batch()],), "no loss was given"),
    (([batch()], lambda o, *_: o["logits"].sum() * 1j), "the loss is complex"),
    (([(*batch(), torch.ones(()))], nn.CrossEntropyLoss()), r"the loss .* cannot be called with the batch[\s\S]*loss\(output, \*batch\)"),
    (([batch()], "loss"), "the loss is of type str"),
    ((3,), "the batches are of type int"),
    ((lambda: [batch()],), "the batches are of type function"),
])
def test_what_is_refused(arguments, says):
    with pytest.raises(ddpc.Error, match=says) as caught:
        ddpc.torch.export(Net(), *arguments)
    assert caught.value.code == 2


@pytest.mark.parametrize("module, says", [(nn.Linear, r"the class Linear, not an nn.Module\nhelp: .*Linear\(\.\.\.\)"),
                                          (None, "is None"), (loss, "of type function")])
def test_what_is_no_module(module, says):
    with pytest.raises(ddpc.Error, match=says):
        ddpc.torch.export(module, [batch()], loss)


@pytest.mark.parametrize("more, says", [
    ({"steps": {}}, "steps is empty"), ({"steps": [loss]}, "steps is of type list"),
    ({"steps": {"d": loss}}, r"step d is of type function; it must be a pair"),
    ({"steps": {"d": (None, None), "d.": (None, None)}}, "steps d and d. are too alike"),
    ({"steps": {"a b": (None, None)}}, "'a b' cannot be the name of a step"),
    ({"via": "magic"}, "via='magic' is neither"),
])
def test_steps_that_are_refused(more, says):
    with pytest.raises(ddpc.Error, match=says):
        ddpc.torch.export(Net(), **more)


def test_a_step_may_be_called_as_the_one_of_a_model_without_steps_is():
    net = nn.ModuleList([nn.Linear(2, 1), nn.Linear(2, 1)])
    net.forward = lambda x, i: net[i](x)
    batches = [(torch.ones(1, 2), 0), (torch.ones(1, 2), 1)]
    steps = {"train": (batches, lambda y, *_: y.sum()), "g": (batches[:1], lambda y, *_: y.sum())}
    answer = ddpc.torch.check(net, steps=steps)
    assert [classes(answer, k)["0.weight"] for k in (0, 1)] == ["conditional", "always"]


def test_a_lazy_parameter_is_refused_by_name():
    with pytest.raises(ddpc.Error, match=r"parameter 0\.weight has no shape yet"):
        ddpc.torch.export(nn.Sequential(nn.LazyLinear(2)), [(torch.ones(1, 2),)], lambda y, _: y.sum())


def test_too_many_paths_are_refused():
    class Count(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(1))

        def forward(self, n):
            y = self.w
            for _ in range(n):
                y = y + 1
            return y

    with pytest.raises(ddpc.Error, match=r"batches took 101 different paths"):
        ddpc.torch.export(Count(), [(n,) for n in range(300)], lambda y, n: y.sum())


def test_a_disagreement_is_an_error_with_names(monkeypatch):
    """A recorder that misses what the module does must not go unnoticed."""
    from ddpc.torch import record

    monkeypatch.setattr(record.Recorder, "_sources", lambda self, edge: [])
    with pytest.raises(ddpc.Error, match=r"disagrees with autograd[\s\S]*embed\.weight: a gradient in batch 1") as caught:
        ddpc.torch.export(Net(), [batch()], loss)
    assert caught.value.code == 1


def test_steps_have_their_own_losses_and_toggles():
    class Gan(nn.Module):
        def __init__(self):
            super().__init__()
            self.gen, self.dis = nn.Linear(2, 2), nn.Linear(2, 1)

        def forward(self, z, turn):
            self.dis.requires_grad_(turn == "d")
            fake = self.gen(z)
            return self.dis(fake.detach() if turn == "d" else fake)

    def gan_loss(output, *_):
        return output.mean()

    z = torch.randn(3, 2)
    net = Gan()
    answer = ddpc.torch.check(net, steps={"d": ([(z, "d")], gan_loss), "g": ([(z, "g")], gan_loss)})
    assert [s["name"] for s in answer["steps"]] == ["d", "g"]
    assert classes(answer, 0) == {"gen.weight": "never", "gen.bias": "never", "dis.weight": "always", "dis.bias": "always"}
    assert classes(answer, 1) == {"gen.weight": "always", "gen.bias": "always", "dis.weight": "frozen",
                                  "dis.bias": "frozen"}


def test_a_wrapped_module_goes_by_its_own_names():
    net = Net()
    plain = ddpc.torch.export(net, [batch()], loss)
    wrapped = nn.DataParallel(net)
    assert ddpc.torch.export(wrapped, [batch()], loss) == plain
    if hasattr(torch, "compile"):
        assert ddpc.torch.export(torch.compile(net, backend="eager"), [batch()], loss) == plain


def test_a_tensor_that_trains_outside_of_the_module_is_said():
    from ddpc.torch.api import recording

    outside = nn.Parameter(torch.ones(2))
    said = recording(nn.Linear(2, 2), [(torch.ones(1, 2),)], lambda y, x: (y * outside).sum())
    assert any("no parameter of the module" in note for note in said.notes)


def test_eval_mode_is_said():
    from ddpc.torch.api import recording

    said = recording(Net().eval(), [batch()], loss)
    assert any("eval mode" in note for note in said.notes)


def test_a_policy_of_the_folder_is_not_asked(tmp_path, monkeypatch):
    (tmp_path / ".ddpccheck").write_text("nonsense\n")
    monkeypatch.chdir(tmp_path)
    assert ddpc.torch.check(Net(), [batch()], loss)["denied"] == []
