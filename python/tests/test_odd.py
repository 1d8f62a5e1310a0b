"""Modules that do what few do: they are recorded all the same, and are afterwards what they were."""

import collections
import copy
import sys
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from test_random import Rerun  # noqa: E402

import ddpc  # noqa: E402
import ddpc.torch  # noqa: E402


class Net(nn.Module):
    """Three layers and a buffer, and a forward pass that a test writes."""

    def __init__(self, forward):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(4))
        self.run, self.calls, self.cache = forward, 0, {}

    def forward(self, x):
        return self.run(self, x)


def total(y, *_):
    return y.sum()


def classes(module, loss=total, batches=None):
    answer = ddpc.torch.check(module, batches or [(torch.randn(3, 4),)], loss)
    return {p["name"]: p["class"] for p in answer["steps"][0]["parameters"] if p["kind"] == "parameter"}


def layers(module, **more):
    """The class of each layer, whose weight and bias share it."""
    said = classes(module, **more)
    assert all(said[f"{n}.weight"] == said[f"{n}.bias"] for n in "abc")
    return "".join(said[f"{n}.weight"][0] for n in "abc")


def state(module):
    """What recording must leave alone: which tensors, their elements, and what modules have."""
    tensors = [*module.named_parameters(), *module.named_buffers()]
    return ({n: (id(t), t.requires_grad, t.is_leaf, id(t.grad)) for n, t in tensors},
            {n: t.detach().clone() for n, t in tensors},
            [(list(m._modules), list(m._parameters), list(m._buffers), m.training, len(m._forward_hooks))
             for m in module.modules()], getattr(module, "calls", 0), len(getattr(module, "cache", {})))


def assert_left_alone(module, **more):
    before = state(module)
    classes(module, **more)
    after = state(module)
    assert before[0] == after[0] and before[2:] == after[2:]
    assert all(torch.equal(t, after[1][n]) for n, t in before[1].items())


class Count(torch.autograd.Function):
    """Writes to its second argument."""

    @staticmethod
    def forward(ctx, x, n):
        n.add_(1)
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g, None


with warnings.catch_warnings():
    warnings.simplefilter("ignore")

    @torch.jit.script
    def scripted_count(x, n):
        n.add_(1)
        return x * 1

    @torch.jit.script
    def scripted_sum(w):
        return w.sum() * 2


def writes_in_a_function(s, x):
    return Count.apply(s.a(x), s.c.weight.data)


def writes_in_scripted_code(s, x):
    return scripted_count(s.a(x), s.c.weight.data)


def writes_in_the_backward_pass(s, x):
    y = s.a(x)
    y.register_hook(lambda g: setattr(s.c.weight, "data", s.c.weight.data + 1))
    return y


def assigns_a_buffer(s, x):
    s.seen = s.seen * 0.9 + x.mean(0)
    return s.a(x)


def attaches_a_buffer_to_the_graph(s, x):
    s.seen += s.a(x)[0]
    return s.seen


def resizes_a_buffer(s, x):
    s.seen.resize_(8).fill_(1.0)
    return s.a(x)


def assigns_a_parameter(s, x):
    s.a.weight = nn.Parameter(s.a.weight.detach() * 2)
    return s.a(x)


def adds_a_layer(s, x):
    s.late = nn.Linear(4, 4)
    return s.a(s.late(x))


def changes_the_mode(s, x):
    s.b.eval()
    return s.a(x)


def adds_a_hook(s, x):
    s.a.register_forward_hook(lambda *_: None)
    return s.a(x)


def counts_and_caches(s, x):
    s.calls += 1
    s.cache[s.calls] = x
    return s.a(x)


def trains_inside(s, x):
    optimizer = torch.optim.SGD(s.c.parameters(), 0.1)
    s.c(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    return s.a(x)


@pytest.mark.parametrize("forward", [
    writes_in_a_function, writes_in_scripted_code, writes_in_the_backward_pass, assigns_a_buffer,
    attaches_a_buffer_to_the_graph, resizes_a_buffer, assigns_a_parameter, adds_a_layer, changes_the_mode, adds_a_hook,
    counts_and_caches, trains_inside])
def test_a_module_is_afterwards_what_it_was(forward):
    assert_left_alone(Net(forward))


def test_an_optimizer_in_the_backward_pass_is_undone():
    module = Net(lambda s, x: s.a(x))
    if not hasattr(module.a.weight, "register_post_accumulate_grad_hook"):
        pytest.skip("torch 2.1")
    for p in module.parameters():
        p.register_post_accumulate_grad_hook(lambda p: setattr(p, "data", p.data + 1))
    assert_left_alone(module)


def test_memory_that_is_not_written_to_may_be_expanded():
    module = Net(lambda s, x: s.a(x) + s.wide)
    module.register_buffer("wide", torch.ones(1).expand(4))
    assert_left_alone(module)


bound = Rerun.apply


@pytest.mark.parametrize("forward, said", [
    (lambda s, x: s.b(Rerun.apply(lambda t: s.c(t), s.a(x))), "aaa"),
    (lambda s, x: s.b(bound(lambda t: s.c(t), s.a(x))), "aaa"),
    (lambda s, x: Rerun.apply(lambda t: Rerun.apply(s.c, t) + s.b(t).detach(), s.a(x)), "ana"),
    (lambda s, x: Rerun.apply(s.c, x.clone().requires_grad_()), "nna"),
    (lambda s, x: s.b(x) + Rerun.apply(s.c, s.a(x)).detach(), "nan"),
])
def test_a_function_that_runs_a_backward_pass_of_its_own(forward, said):
    assert layers(Net(forward)) == said


@pytest.mark.parametrize("run, said", [
    (lambda s, t: s.a(t.detach()), "aan"),
    (lambda s, t: (s.c(t).detach(), s.a(t)), "aan"),
    (lambda s, t: (s.a(t), s.c(t).argmax())[0], "aan"),
    (lambda s, t: {"y": s.a(t)}, "nna"),  # of a dict nothing gets a gradient
])
def test_what_a_reentrant_checkpoint_takes_and_returns(run, said):
    def forward(s, x):
        y = checkpoint(lambda t: run(s, t), s.b(x), use_reentrant=True)
        return y["y"] + s.c(x) if isinstance(y, dict) else y[0] if isinstance(y, tuple) else y

    assert layers(Net(forward)) == said


def test_unread_results_of_a_reentrant_checkpoint_get_zeros():
    assert layers(Net(lambda s, x: checkpoint(lambda t: (s.a(t), t * 1, None), s.b(x), use_reentrant=True)[1])) == "aan"
    assert layers(Net(lambda s, x: checkpoint(lambda t, w: t * 2, s.b(x), s.a.weight * 1 + s.a.bias,
                                              use_reentrant=True))) == "aan"


class Strict(torch.Tensor):
    """Knows two calls."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func.__name__ not in ("linear", "sum"):
            raise TypeError(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def test_a_subclass_of_tensor_sees_the_calls_of_the_user_alone():
    module = Net(lambda s, x: torch.sum(s.b(s.a(x))).as_subclass(torch.Tensor))
    assert layers(module, batches=[(torch.randn(3, 4).as_subclass(Strict),)]) == "aan"


class Anything:
    """Has every attribute."""

    def __getattr__(self, name):
        return None


def test_an_object_with_every_attribute_is_no_dataclass():
    class Out(Net):
        def forward(self, x, config):
            return collections.OrderedDict(y=self.a(x), config=config)

    module = Out(None)
    assert layers(module, batches=[(torch.randn(3, 4), Anything())], loss=lambda o, *_: o["y"].sum()) == "ann"


def test_code_made_by_a_tracer_while_it_runs():
    assert layers(Net(lambda s, x: torch.fx.symbolic_trace(s.a)(x))) == "ann"


def test_scripted_and_traced_modules():
    layer = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in (torch.jit.script(copy.deepcopy(layer)), torch.jit.trace(layer, torch.randn(3, 4))):
            assert classes(module) == {"0.weight": "always", "0.bias": "always"}


def test_a_type_that_the_text_has_no_name_for_carries_no_gradient():
    assert layers(Net(lambda s, x: torch.quantize_per_tensor(s.a(x), 0.1, 0, torch.quint8).dequantize() + s.b(x))) == "nan"


def test_a_buffer_may_be_a_parameter():
    module = Net(lambda s, x: s.a(x) * s.k)
    module.register_buffer("k", module.b.bias)
    assert classes(module)["b.bias"] == "always"


def test_parameters_may_be_sparse():
    module = Net(lambda s, x: torch.sparse.mm(s.sparse, s.a(x).t()))
    module.sparse = nn.Parameter(torch.eye(4).to_sparse())
    assert classes(module)["sparse"] == "always"


def test_a_view_made_under_no_grad():
    def forward(s, x):
        with torch.no_grad():
            s.a.weight[0].zero_()
        return s.a(x)

    assert layers(Net(forward)) == "ann"


def test_what_holds_itself_is_returned():
    def forward(s, x):
        out = {"y": s.a(x)}
        out["self"] = [out]
        return out

    assert layers(Net(forward), loss=lambda o, *_: o["y"].sum()) == "ann"


def test_keys_that_read_the_same():
    assert layers(Net(lambda s, x: {1: s.a(x), "1": s.b(x), "1_": x}), loss=lambda o, *_: o[1].sum()) == "ann"


@pytest.mark.parametrize("around", [torch.no_grad, torch.inference_mode])
def test_the_caller_may_have_switched_gradients_off(around):
    module, batches = Net(lambda s, x: s.a(x)), [(torch.randn(3, 4),)]
    with around():
        assert layers(module, batches=batches) == "ann"


def test_a_module_may_recurse_as_deep_as_python_goes():
    def forward(s, x):
        depth, frame = 0, sys._getframe()
        while frame is not None:
            depth, frame = depth + 1, frame.f_back

        def down(n, x):
            return down(n - 1, x) if n else s.a(x)

        return down(1000 - depth - 12, x)

    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(1000)
        assert layers(Net(forward)) == "ann"
        assert sys.getrecursionlimit() == 1000
    finally:
        sys.setrecursionlimit(limit)


def test_a_backward_pass_in_forward():
    def forward(s, x):
        y = s.a(x).sum()
        y.backward()
        return y

    with pytest.raises(ddpc.Error, match="runs a backward pass of its own"):
        classes(Net(forward))


def test_names_are_any_that_a_module_takes():
    module = Net(lambda s, x: s.a(x) * sum(p for p in s.named.values()))
    module.named = nn.ParameterDict({n: nn.Parameter(torch.ones(1)) for n in (
        "x,y", "a=b", 'q"', "back\\slash", "new\nline", "sp ace", "ünï", "x" * 3000, "loss", "#", "*", "v1")})
    said = classes(module)
    assert all(said[f"named.{n}"] == "always" for n in module.named.keys())
    module.named["x,y"].requires_grad_(False)
    with pytest.raises(ddpc.Error, match="'named.x,y' is frozen, tied or a buffer, and its name cannot be listed"):
        classes(module)
    module = Net(lambda s, x: s.a(x))
    module._parameters["\0"] = nn.Parameter(torch.ones(1))
    with pytest.raises(ddpc.Error, match="has a character that no text can hold"):
        classes(module)


def test_a_hidden_result_that_is_first_read_while_its_parameter_is_frozen():
    def forward(s, x):
        of_weight, of_bias = scripted_sum(s.a.weight), scripted_sum(s.a.bias)
        for p in (s.a.weight, s.a.bias):
            p.requires_grad_(False)
        y = s.c(x) * of_weight * of_bias + s.a(x)
        for p in (s.a.weight, s.a.bias):
            p.requires_grad_(True)
        return y

    said = classes(Net(forward))
    assert said["a.weight"] == said["a.bias"] == said["c.weight"] == "always" and said["b.weight"] == "never"
