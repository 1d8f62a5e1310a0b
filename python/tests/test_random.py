"""Random programs: what a recording says of each parameter is what autograd does, without the recorder.

A program is a list of random calls on a pool of tensors: layers, views and writes through them, cuts of every kind,
custom Functions, checkpoints, scripted code, Python branches on the batch. The truth is an ordinary forward and
backward pass with hooks on the AccumulateGrad nodes, as DistributedDataParallel has them.
"""

import os
import random
import warnings

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import ddpc.torch  # noqa: E402

PROGRAMS = int(os.environ.get("DDPC_RANDOM_PROGRAMS", "150"))


class Half(torch.autograd.Function):
    """Its second input gets None, its second output is not differentiable."""

    @staticmethod
    def forward(ctx, x, w):
        sign = x.sign()
        ctx.mark_non_differentiable(sign)
        return x + w.sum(), sign

    @staticmethod
    def backward(ctx, grad, _):
        return grad, None


bound_at_import = Half.apply


def scale(x, w):
    return x * w.sum() + 1


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    scripted = torch.jit.script(scale)


def write_through_view(x, w):
    y = x.clone()
    y[:, 1:].add_(w[0, :3])
    return y


def write_then_read_other_view(x, w):
    y = torch.zeros(3, 4)
    other = y.view(-1)[6:]
    y[:2] = x[:2] + w[0]
    return x + other.sum()


def write_under_no_grad(x, w):
    y = x.clone()
    with torch.no_grad():
        y.add_(w[0])
    return y


def write_to_detached(x, w):
    y = x.clone()
    y.detach().add_(w[0])
    return y


def cut_by_no_grad(x, w):
    with torch.no_grad():
        t = F.linear(x, w)
    return x + t


def cut_by_inference_mode(x, w):
    with torch.inference_mode():
        t = F.linear(x.detach().clone(), w)
    return x + t.clone()


def data_of_parameter(x, w):
    return F.linear(x, w.data)


def requires_grad_off_at_one_use(x, w):
    needed = w.requires_grad
    w.requires_grad_(False)
    y = F.linear(x, w)
    w.requires_grad_(needed)
    return y


def indices_only(x, w):
    order = F.linear(x, w).argsort(1)
    return x.gather(1, order)


def values_of_topk(x, w):
    values, order = F.linear(x, w).topk(2, dim=1)
    return x + values.sum() + order.float()[:, :1]


def through_integers(x, w):
    return x + F.linear(x, w).round().long().float()


def like(x, w):
    return x + torch.zeros_like(F.linear(x, w))


def mask(x, w):
    return x.masked_fill(F.linear(x, w) > 0, 0.5)


def where(x, w):
    return torch.where(x > 0, x, F.linear(x, w))


def attention(x, w):
    y, _ = F.multi_head_attention_forward(x[:, None], x[:, None], x[:, None], 4, 2, w.repeat(3, 1), None, None, None,
                                          False, 0.0, w, None)
    return y[:, 0]


def attention_weights(x, w):
    _, a = F.multi_head_attention_forward(x[:, None], x[:, None], x[:, None], 4, 2, w.detach().repeat(3, 1), None,
                                          None, None, False, 0.0, w, None)
    return x + a.sum()


def custom(x, w):
    y, sign = Half.apply(x, w)
    return y + sign * 0.1


def custom_bound(x, w):
    return bound_at_import(x, w)[0]


def custom_sign(x, w):
    return x + Half.apply(F.linear(x, w), w)[1]


def reentrant(x, w):
    return checkpoint(lambda t: F.linear(t, w).tanh() + t.detach(), x, use_reentrant=True)


def reentrant_without_gradient(x, w):
    return x + checkpoint(lambda t: F.linear(t, w), x.detach(), use_reentrant=True)


def not_reentrant(x, w):
    return checkpoint(lambda t: F.linear(t, w).tanh(), x, use_reentrant=False)


def autocast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return F.linear(F.linear(x, w), w).float()


def unbind(x, w):
    first, *_, last = F.linear(x, w).unbind(1)
    return x + first[:, None] + last.detach()[:, None]


def inner_gradient(x, w):
    with torch.enable_grad():
        t = torch.ones(3, 4, requires_grad=True)
        g, = torch.autograd.grad(F.linear(t, w).tanh().sum(), t, create_graph=True)
    return x + g


def chunks(x, w):
    a, b = F.linear(x, w).chunk(2, dim=1)
    return x + torch.cat([a.detach(), b], 1)


class Dirty(torch.autograd.Function):
    """Writes to its first input."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x.add_(y))
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad, grad


class Pieces(torch.autograd.Function):
    """Two outputs and what is no tensor; no zeros for an output that nothing reads."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.set_materialize_grads(False)
        return x * 2, F.linear(x, w), None, "text"

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, first, second, *_):
        return first, None if second is None else torch.ones(4, 4)


class Rerun(torch.autograd.Function):
    """A checkpoint as some libraries write their own: its backward runs a backward pass over what it computes again."""

    @staticmethod
    def forward(ctx, run, x):
        ctx.run = run
        ctx.save_for_backward(x)
        return run(x)

    @staticmethod
    def backward(ctx, grad):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            torch.autograd.backward(ctx.run(x), grad)
        return None, x.grad


def dirty(x, w):
    y = x * 1
    Dirty.apply(y, F.linear(x, w))
    return y


def pieces(x, w):
    first, second, *_ = Pieces.apply(x, w)
    return first if w.shape[0] % 2 else second


def first_piece(x, w):
    return Pieces.apply(x, w)[0]


def rerun(x, w):
    return Rerun.apply(lambda t: F.linear(t, w).tanh() if w.requires_grad else t * 1, x)


def rerun_nested(x, w):
    return Rerun.apply(lambda t: Rerun.apply(lambda u: u * w.sum(), t) + F.linear(t, w).detach(), x)


def reentrant_pair(x, w):
    y, z, _ = checkpoint(lambda t: (F.linear(t, w), t * 2, None), x, use_reentrant=True)
    return z


def reentrant_cut_inside(x, w):
    return checkpoint(lambda t: F.linear(t.detach(), w) + t.sum(), x, use_reentrant=True)


def reentrant_of_weight(x, w):
    return checkpoint(lambda t, v: t * 2, x, w, use_reentrant=True)


def nested_checkpoints(x, w):
    return checkpoint(lambda t: checkpoint(lambda u: F.linear(u, w).tanh(), t * 2, use_reentrant=False), x,
                      use_reentrant=False)


def index_put(x, w):
    return torch.zeros(3, 4).index_put_((torch.tensor([0, 2]),), F.linear(x, w)[:2]) + x


def scatter(x, w):
    return x.clone().scatter_(1, torch.zeros(3, 4, dtype=torch.long), F.linear(x, w))


def write_by_mask(x, w):
    y = F.linear(x, w).clone()
    y[y.detach() > 0] = 0.0
    y[0] = x[0]
    return y


def write_expanded(x, w):
    y = torch.zeros(3, 4)
    y[:, :2].copy_(F.linear(x, w)[:1, :2].expand(3, 2))
    y[1:].mul_(x[1:])
    return y


def write_through_chain(x, w):
    y = x.clone()
    y.view(2, 6)[:, 1:3].t().add_(w[:2, :2])
    return y


def write_to_split(x, w):
    y = torch.zeros(3, 4)
    for i in range(3):
        y.narrow(0, i, 1).copy_(F.linear(x, w)[i:i + 1])
    return y + x


def write_over(x, w):
    y = F.linear(x, w).clone()
    y.copy_(x)
    return y


def zero_and_fill(x, w):
    return F.linear(x, w).clone().zero_().add_(x)


def out_argument(x, w):
    with torch.no_grad():
        y = torch.mul(x, w.sum(), out=torch.empty(3, 4))
    return x + y


def data_of_result(x, w):
    y = x * 2
    y.data = F.linear(x, w).data
    return y


def detached_in_place(x, w):
    y = F.linear(x, w)
    y.detach_()
    return x + y


def made_a_leaf(x, w):
    return x + F.linear(x, w).detach().requires_grad_()


def grad_mode_toggled(x, w):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    y = F.linear(x, w)
    torch.set_grad_enabled(before)
    return x * y


def straight_through(x, w):
    y = F.linear(x, w)
    return x + y + (y.round() - y).detach()


def quantized(x, w):
    return x + torch.fake_quantize_per_tensor_affine(F.linear(x, w), 0.1, 0, 0, 255)


def fourier(x, w):
    z = torch.fft.fft(F.linear(x, w))
    return x + z.real + torch.view_as_real(z.detach())[..., 0]


def hooked(x, w):
    y = F.linear(x, w)
    if y.requires_grad:
        y.register_hook(lambda g: g * 0)
    return x + y


def copied_weight(x, w):
    return x + F.linear(x, torch.nn.Parameter(w.detach().clone()))


def first_order(x, w):
    if not w.requires_grad or not torch.is_grad_enabled():
        return x * 2
    g, = torch.autograd.grad(F.linear(x.detach(), w).tanh().sum(), w)
    return F.linear(x, g)


def second_order(x, w):
    if not w.requires_grad or not torch.is_grad_enabled():
        return x * 2
    g, = torch.autograd.grad(F.linear(x.detach(), w).tanh().sum(), w, create_graph=True)
    return F.linear(x, g)


def saved_elsewhere(x, w):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().numpy(), torch.from_numpy):
        return F.linear(x, w).tanh()


def in_a_thread(x, w):
    import threading

    results, grad = [], torch.is_grad_enabled()

    def work():
        with torch.set_grad_enabled(grad):
            results.append(F.linear(x, w))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return results[0]


def of_no_elements(x, w):
    return x + F.linear(x[:0], w).sum()


def strided(x, w):
    return x + F.linear(x, w).unfold(1, 2, 1).as_strided((3, 1), (1, 1))


def numbers(x, w):
    return x * F.linear(x, w).detach().sum().item()


NEWER = []
if hasattr(torch, "func"):
    def vmapped(x, w):
        return torch.vmap(lambda t: F.linear(t, w).tanh())(x)

    def functional_gradient(x, w):
        return x + torch.func.grad(lambda t: F.linear(t, w).tanh().sum())(x)

    def functional_gradient_of_weight(x, w):
        return F.linear(x, torch.func.grad(lambda v: F.linear(x.detach(), v).tanh().sum())(w))

    def functional_call(x, w):
        return torch.func.functional_call(nn.Linear(4, 4, bias=False), {"weight": w * 2}, (x,))

    def forward_mode(x, w):
        return x + torch.func.jvp(lambda t: F.linear(t, w).tanh(), (x,), (torch.ones(3, 4),))[1]

    NEWER = [vmapped, functional_gradient, functional_gradient_of_weight, functional_call, forward_mode]

CALLS = [lambda x, w: F.linear(x, w), write_through_view, write_then_read_other_view, write_under_no_grad,
         write_to_detached, cut_by_no_grad, cut_by_inference_mode, data_of_parameter, requires_grad_off_at_one_use,
         indices_only, values_of_topk, through_integers, like, mask, where, attention, attention_weights, custom,
         custom_bound, custom_sign, reentrant, reentrant_without_gradient, not_reentrant, autocast, unbind,
         inner_gradient, chunks, scripted, dirty, pieces, first_piece, rerun, rerun_nested, reentrant_pair,
         reentrant_cut_inside, reentrant_of_weight, nested_checkpoints, index_put, scatter, write_by_mask, write_expanded,
         write_through_chain, write_to_split, write_over, zero_and_fill, out_argument, data_of_result, detached_in_place,
         made_a_leaf, grad_mode_toggled, straight_through, quantized, fourier, hooked, copied_weight, first_order,
         second_order, saved_elsewhere, in_a_thread, of_no_elements, strided, numbers, *NEWER]


WRONG = ("modified by an inplace operation", "none of output has requires_grad=True")


class Program(nn.Module):
    """`taken[i]` of the batch decides whether line i of a branch runs."""

    def __init__(self, seed):
        super().__init__()
        rng = random.Random(seed)
        n = rng.randint(4, 10)
        self.w = nn.ParameterList([nn.Parameter(torch.randn(4, 4) / 4) for _ in range(n)])
        if rng.random() < 0.3:
            self.w[rng.randrange(n)] = self.w[0]
        if rng.random() < 0.3:
            self.w[rng.randrange(n)].requires_grad_(False)
        self.lines = [(rng.choice(CALLS), rng.randrange(n), rng.randrange(10 ** 6), rng.random() < 0.25,
                       rng.choice(["new", "new", "add_", "list"])) for _ in range(rng.randint(3, 12))]
        self.ends = [rng.randrange(10 ** 6) for _ in range(rng.randint(1, 2))]

    def forward(self, x, taken):
        pool = [x]
        for i, (call, w, pick, branch, how) in enumerate(self.lines):
            if branch and not taken[i]:
                continue
            source = pool[pick % len(pool)]
            result = call(source, self.w[w])
            if how == "add_" and len(pool) > 1 and not pool[-1].is_leaf:
                pool[-1] += result
            else:
                pool.append(result)
        return tuple(pool)

    def loss(self, output, x, taken):
        return sum(output[e % len(output)].sum() for e in self.ends)


def truth(module, batch):
    """Names of the parameters whose gradient is accumulated, without the recorder."""
    value = module.loss(module(*batch), *batch)
    got, nodes = set(), []
    for name, p in module.named_parameters():
        if p.requires_grad:
            node = p.expand_as(p).grad_fn.next_functions[0][0]
            nodes.append((node, node.register_hook(lambda *_, name=name: got.add(name))))
    if value.requires_grad:
        value.backward()
    for _, hook in nodes:  # a node can outlive the pass
        hook.remove()
    return got


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_program(seed):
    torch.manual_seed(seed)
    rng = random.Random(-seed - 1)
    module = Program(seed)
    batches = [(torch.randn(3, 4), [rng.random() < 0.5 for _ in module.lines]) for _ in range(rng.randint(1, 4))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = [truth(module, b) for b in batches]
        except RuntimeError as error:
            if any(said in str(error) for said in WRONG):
                pytest.skip(f"the program itself is wrong: {error}")
            raise
        answer = ddpc.torch.check(module, batches, module.loss)
    for p in answer["steps"][0]["parameters"]:
        seen = [p["name"] in got for got in expected]
        trains = module.get_parameter(p["name"]).requires_grad
        want = ("frozen" if not trains else "always" if all(seen) else "conditional" if any(seen) else "never")
        assert p["class"] == want, (p["name"], p["reason"], seen)
