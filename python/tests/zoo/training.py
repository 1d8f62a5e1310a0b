"""Ways of training: checkpoints, autograd functions, autocast, reparametrizations, hooks, inner loops, scripts."""
from __future__ import annotations

from typing import Any, Tuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from . import Setup, model, why

W = 4


def batch(*more: int) -> Tuple[torch.Tensor]:
    """One argument, float[3, W]."""
    return (torch.randn(3, W, *more),)


def square(y: torch.Tensor, *rest: object) -> torch.Tensor:
    return y.pow(2).mean()


def part() -> nn.Sequential:
    return nn.Sequential(nn.Linear(W, W), nn.Dropout(0.1), nn.Tanh())


class Checkpointed(nn.Module):
    """A stem, two checkpointed parts, a head; without `stem` nothing that enters the first part needs a gradient."""

    def __init__(self, reentrant: bool, stem: bool = True):
        super().__init__()
        self.reentrant = reentrant
        self.stem = nn.Linear(W, W) if stem else nn.Identity()
        self.first, self.second, self.head = part(), part(), nn.Linear(W, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = checkpoint(self.first, x, use_reentrant=self.reentrant)  # @checkpoint
        x = checkpoint(self.second, x, use_reentrant=self.reentrant)  # @again
        return self.head(x)


@model()
def checkpoint_reentrant() -> Setup:
    return Setup(Checkpointed(True), [batch()], square)


@model()
def checkpoint_non_reentrant() -> Setup:
    return Setup(Checkpointed(False), [batch()], square)


@model(never={
    "first.*": why("re-entrant checkpoint", at="checkpoint"),
    "second.*": why("re-entrant checkpoint", at="again"),
})
def checkpoint_reentrant_without_gradient() -> Setup:
    """The trap of the old checkpoint: its inputs need no gradient, so its parameters get none."""
    return Setup(Checkpointed(True, stem=False), [batch()], square)


class Branching(nn.Module):
    """A checkpoint with two results."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.read, self.unread = nn.Linear(W, W), part(), part()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = checkpoint(lambda x: (self.read(x), self.unread(x)), self.stem(x), use_reentrant=True)
        return y


@model()
def checkpoint_unread_result() -> Setup:
    """The old checkpoint gives a result that nothing reads a gradient of zeros."""
    return Setup(Branching(), [batch()], square)


@model()
def checkpoint_segments() -> Setup:
    class Segments(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.Sequential(*(part() for _ in range(4)))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint_sequential(self.parts, 2, x.requires_grad_())

    return Setup(Segments(), [(torch.randn(3, W),)], square)


class Scale(torch.autograd.Function):
    """x * a * b, which says nothing about b."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, a, b)
        return x * a * b

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, a, b = ctx.saved_tensors
        return grad * a * b, (grad * x * b).sum(0), None


class Halves(torch.autograd.Function):
    """(x * a, x * b), the second without a gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, a: torch.Tensor) -> Any:
        ctx.save_for_backward(x, a)
        y, rounded = x * a, (x * a).round()
        ctx.mark_non_differentiable(rounded)
        return y, rounded

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, _: torch.Tensor) -> Any:
        x, a = ctx.saved_tensors
        return grad * a, (grad * x).sum(0)


class Reverse(torch.autograd.Function):
    """The identity, with the gradient's sign changed (domain-adversarial training)."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return -grad


class AddInPlace(torch.autograd.Function):
    """x += y, marked dirty."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        return x.add_(y)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad, grad


class Functions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.lost = (nn.Parameter(torch.ones(W)) for _ in range(3))
        self.stem, self.side, self.head, self.domain = (nn.Linear(W, W) for _ in range(4))

    def forward(self, x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        x = Scale.apply(self.stem(x), self.a, self.b)
        _, rounded = Halves.apply(x, self.lost)  # @halves
        x = AddInPlace.apply(x * 2, self.side(x) + rounded)
        return self.head(x), self.domain(Reverse.apply(x))


@model(never={"lost": why("Halves", at="halves")})
def autograd_functions() -> Setup:
    """A gradient that backward leaves None is a gradient for autograd and for DDP: `b` stays as it is, but it is there."""
    return Setup(Functions(), [batch()], lambda out, x: square(out[0]) + square(out[1]))


class Mixed(nn.Module):
    """Weights are cast once and the cast is kept for the second use."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.linear, self.head = nn.Conv1d(W, W, 3), nn.LayerNorm(W), nn.Linear(W, W), nn.Linear(W, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            x = self.norm(self.conv(x).transpose(1, 2).float())
            x = self.linear(self.linear(x).relu())
            with torch.autocast("cpu", enabled=False):
                return self.head(x.float())


@model()
def autocast_bfloat16() -> Setup:
    return Setup(Mixed(), [batch(6), batch(5)], square)


class Normed(nn.Module):
    """Weights that are computed before each forward."""

    def __init__(self) -> None:
        super().__init__()
        parametrizations = nn.utils.parametrizations
        self.old = nn.utils.spectral_norm(nn.Linear(W, W))
        self.weight = nn.utils.weight_norm(nn.Conv1d(W, W, 1))
        self.spectral = parametrizations.spectral_norm(nn.Linear(W, W))
        self.orthogonal = parametrizations.orthogonal(nn.Linear(W, W), orthogonal_map="cayley")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.weight(self.old(x).unsqueeze(-1)).squeeze(-1)
        return self.orthogonal(self.spectral(x).relu())


@model()
def weight_and_spectral_norm() -> Setup:
    return Setup(Normed(), [batch(), batch()], square)


class Attention(nn.Module):
    """To be scripted: a loop, a branch on data, a head that is left alone."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.dead = nn.Linear(W, W), nn.Linear(W, W), nn.Linear(W, W)
        self.steps: int = 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.steps):
            x = torch.softmax(self.q(x) @ self.k(x).t(), dim=-1) @ x
        if bool(x.sum() > 1e9):
            x = self.dead(x)
        return x


@torch.jit.script
def fused_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return 0.5 * (x + bias) * (1 + torch.tanh(0.79788456 * (x + bias)))


class Scripted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Linear(W, W), nn.Linear(W, 1)
        self.bias = nn.Parameter(torch.zeros(W))
        self.block = torch.jit.script(Attention())
        self.traced = torch.jit.trace(nn.Linear(W, W), torch.randn(2, W))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.traced(self.block(fused_gelu(self.stem(x), self.bias))))


@model(never={"block.dead.*": why("nothing reads it")})
def scripted_block() -> Setup:
    """What a Python mode cannot look into."""
    return Setup(Scripted(), [batch(), batch()], square)


class Hooked(nn.Module):
    """Hooks on modules and tensors change nothing about who gets a gradient, unless a forward hook replaces a result."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(W, W) for _ in range(3))
        self.a.register_full_backward_hook(lambda module, into, out: None)
        self.b.register_forward_hook(lambda module, x, y: y.detach())  # @hook
        self.c.register_forward_pre_hook(lambda module, x: (x[0] * 2,))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.a(x)
        x.register_hook(lambda grad: grad * 2)
        return self.c(x + self.b(x))


@model(never={"b.*": why("detach", at="hook")})
def module_hooks() -> Setup:
    return Setup(Hooked(), [batch()], square)


class Maml(nn.Module):
    """One inner step: the adapted weights are functions of the weights."""

    def __init__(self, second: bool):
        super().__init__()
        self.second = second
        self.weight, self.bias, self.rate = nn.Parameter(torch.randn(1, W)), nn.Parameter(torch.zeros(1)), nn.Parameter(torch.tensor(0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        loss = F.linear(x, self.weight, self.bias).pow(2).mean()
        slopes = torch.autograd.grad(loss, [self.weight, self.bias], create_graph=self.second)
        weight, bias = (p - self.rate * g for p, g in zip((self.weight, self.bias), slopes))
        return F.linear(x, weight, bias)


@model()
def maml_second_order() -> Setup:
    return Setup(Maml(True), [batch()], square)


@model()
def maml_first_order() -> Setup:
    return Setup(Maml(False), [batch()], square)


class Half(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(W, 1), nn.Linear(W, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.used(x)


@model()
def weight_decay_by_hand() -> Setup:
    """A penalty on all parameters reaches those that the forward leaves alone."""
    net = Half()
    return Setup(net, [batch()], lambda y, x: square(y) + 1e-3 * sum(p.pow(2).sum() for p in net.parameters()))


@model()
def loss_weights_outside() -> Setup:
    """Uncertainty weights: parameters that only the loss reads; one of them times zero."""

    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(W, 2)
            self.log_scale, self.off = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x)

    net = Weighted()
    return Setup(net, [batch()], lambda y, x: (y.pow(2) * (-net.log_scale).exp()).mean() + 0 * net.off)
