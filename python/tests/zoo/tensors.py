"""What is hard about tensors: views, in-place writes, indices, types, and values that leave autograd."""
from __future__ import annotations

from typing import Tuple

import torch
import torch.nn.functional as F
from torch import nn

from . import Setup, model, why
from .training import W, batch, square


def weights(n: int, *shape: int) -> nn.ParameterList:
    return nn.ParameterList([nn.Parameter(torch.randn(*shape)) for _ in range(n)])


class InPlace(nn.Module):
    """Writes into values, each with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.w = weights(12, W)
        self.stem, self.hidden = nn.Linear(W, W), nn.Linear(W, W)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w = self.w
        x = self.stem(x)
        x[:, 0] = w[0][0]
        x[1:, 1:3] += w[1][1:3]
        x.mul_(w[2]).clamp_(-5, 5).masked_fill_(x > 4, 0.5)
        row = x[0]
        row.add_(w[3])
        x.narrow(1, 2, 2).mul_(w[4][:2])
        x.t()[3].view(-1)[1:].sub_(w[5][1:3])
        x.diagonal().copy_(w[6][:3])
        x.index_add_(0, torch.tensor([0, 2]), torch.stack([w[7], w[7]]))
        x.scatter_(1, torch.tensor([[0], [1], [2]]), w[8][:3, None])
        x.index_put_((torch.tensor([1]), torch.tensor([2])), w[9][:1], accumulate=True)
        out = torch.empty_like(x)
        out[:] = self.hidden(x)
        out.unbind(0)
        lists = [out[i] for i in range(3)]
        lists[1] = lists[1] + w[10]
        buffer = torch.zeros(3, W)
        torch.stack(lists, out=None).add(0)
        buffer.copy_(torch.stack(lists))
        return buffer.addcmul_(w[11], w[11]).relu_()


@model()
def in_place() -> Setup:
    return Setup(InPlace(), [batch()], square)


class Overwritten(nn.Module):
    """What is overwritten has a gradient of zeros; what is written to a detached copy has none."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after, self.copied = (nn.Linear(W, W) for _ in range(3))
        self.zeroed, self.logged = nn.Parameter(torch.ones(W)), nn.Parameter(torch.ones(W))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.before(x)
        y[:] = self.after(x)
        z = self.zeroed + y
        z.zero_()
        shadow = y.detach().clone()
        shadow += self.copied(x)  # @shadow
        with torch.no_grad():
            y += self.logged  # @logged
        return y + z


@model(never={
    "copied.*": why("nothing reads", at="shadow"),
    "logged": why("no_grad", at="logged"),
})
def overwritten() -> Setup:
    return Setup(Overwritten(), [batch()], square)


class Clipped(nn.Module):
    """Writes to its own weights, past autograd: through .data, views and aliases."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(W, W), nn.Linear(W, W)
        self.scale = nn.Parameter(torch.ones(W))
        self.register_buffer("seen", torch.zeros(2, W))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.a.weight.data.clamp_(-0.1, 0.1)
        self.scale.data = self.scale.data * 0.5
        with torch.no_grad():
            self.b.weight.view(-1)[0] = 0
            self.b.bias.detach()[1:].zero_()
            self.seen[0].data.add_(x.mean(0))
        return self.b(self.a(x)) * self.scale


@model()
def weights_written_by_hand() -> Setup:
    return Setup(Clipped(), [batch(), batch()], square)


class Views(nn.Module):
    """Reads through views, splits and indices: a piece that is not used is still a piece."""

    def __init__(self) -> None:
        super().__init__()
        self.w = weights(8, 4, 6)
        self.unused_piece = nn.Parameter(torch.randn(6))
        self.qkv = nn.Linear(W, 3 * W)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, _ = self.qkv(x).chunk(3, -1)
        y = (q * k).sum()
        a, b, *_ = self.w[0].unbind(0)
        y = y + (a * b).sum()
        first, second = self.w[1].split([2, 4], 1)
        y = y + first.sum()
        y = y + self.w[2].t().reshape(-1)[::5].sum() + self.w[3].unfold(1, 2, 2).permute(2, 0, 1).mean()
        y = y + self.w[4].as_strided((2, 2), (6, 1)).sum() + self.w[5][torch.tensor([0, 0]), None, ..., -1].sum()
        y = y + self.w[6].masked_select(self.w[6] > 0).sum() + torch.gather(self.w[7], 1, torch.zeros(4, 1, dtype=torch.int64)).sum()
        joined = torch.cat([first[0], self.unused_piece])
        return y + joined[:2].sum()


@model()
def views_and_pieces() -> Setup:
    """`joined[:2]` is made of the first piece alone, yet the gradient of `cat` goes to both."""
    return Setup(Views(), [batch()], square)


class Leaves(nn.Module):
    """Values that leave autograd, by every door."""

    def __init__(self) -> None:
        super().__init__()
        names = "data item detach number array floor compare branch shape copy integer sign size".split()
        self.p = nn.ParameterDict({f"by_{name}": nn.Parameter(torch.tensor([0.5, 2.0, 1.0, 3.0])) for name in names})
        self.head = nn.Linear(W, W)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        p = self.p
        x = self.head(x)
        x = x * p["by_data"].data  # @data
        x = x * p["by_item"][0].item()  # @item
        x = x * p["by_detach"].detach()  # @detach
        x = x * float(p["by_number"][1])  # @number
        x = x + torch.tensor(p["by_array"].tolist())  # @array
        x = x + p["by_floor"].floor()
        x = x + (p["by_compare"] > 1)  # @compare
        if p["by_branch"].sum() > 0:  # @branch
            x = x * 2
        x = x * p["by_shape"].shape[0]  # @shape
        x = x + torch.tensor(p["by_copy"])  # @copy
        x = x + p["by_integer"].long()  # @integer
        x = x * p["by_sign"].sign()
        return x + torch.zeros_like(p["by_size"])  # @size


@model(never={
    "p.by_data": why("detached", at="data"),
    "p.by_item": why("item", at="item"),
    "p.by_detach": why("detached", at="detach"),
    "p.by_number": why("float|item", at="number"),
    "p.by_array": why("tolist", at="array"),
    "p.by_compare": why("gt|>", at="compare"),
    "p.by_branch": why("gt|bool", at="branch"),
    "p.by_shape": why("nothing reads it|shape"),
    "p.by_copy": why("tensor", at="copy"),
    "p.by_integer": why("long|int64", at="integer"),
    "p.by_size": why("zeros_like", at="size"),
})
def leaves_autograd() -> Setup:
    return Setup(Leaves(), [batch()], square)


class Types(nn.Module):
    """Complex and double parameters, Fourier transforms, scalars, empty ones."""

    def __init__(self) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.randn(3, dtype=torch.complex64))
        self.pairs = nn.Parameter(torch.randn(3, 2))
        self.precise = nn.Linear(W, W).double()
        self.scalar = nn.Parameter(torch.tensor(1.0))
        self.empty = nn.Parameter(torch.zeros(0, W))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.fft.rfft(x) * self.filter + torch.view_as_complex(self.pairs)
        y = torch.fft.irfft(spectrum, W) * self.scalar + self.precise(x.double()).float()
        return torch.cat([y, self.empty]) + spectrum.abs().sum() + spectrum.real.mean() + spectrum.conj().imag.mean()


@model(ddp="gloo reduces no complex numbers")
def complex_and_double() -> Setup:
    return Setup(Types(), [batch()], square)


class Ops(nn.Module):
    """Operators with several results or unusual rules, each fed by a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.w = weights(14, 4, 6)
        self.logits = nn.Parameter(torch.randn(5, 2, 4))
        self.indices_only = nn.Parameter(torch.randn(4, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w = iter(self.w)
        values, order = next(w).sort(1)
        _, best = self.indices_only.topk(2, 1)  # @topk
        y = values[0, 0] + order.float().mean() + best.float().sum()
        y = y + next(w).topk(2, 1).values.sum() + next(w).max(1)[0].sum() + next(w).cummax(0)[0].sum()
        y = y + next(w).median() + torch.var_mean(next(w))[0] + next(w).logsumexp(1).sum() + next(w).cumsum(1)[-1, -1]
        a = next(w)
        y = y + torch.where(a > 100, a, torch.zeros_like(a)).sum() + (0 * next(w)).sum()
        u, s, v = torch.linalg.svd(next(w), full_matrices=False)
        y = y + s.sum() + torch.linalg.qr(next(w).t())[1].abs().sum()
        y = y + torch.einsum("ij,kj->ik", next(w), x.new_ones(2, 6)).sum() + F.pad(next(w), (1, 1)).prod(1).sum()
        return y + F.ctc_loss(
            self.logits.log_softmax(2), torch.tensor([[1, 2], [3, 0]]), torch.tensor([5, 5]), torch.tensor([2, 1])
        )


@model(never={"indices_only": why("topk", at="topk")})
def operators() -> Setup:
    return Setup(Ops(), [batch()], square)


class Vmapped(nn.Module):
    """An ensemble by broadcasting and torch.nn.functional over a stack of weights, and a tree by recursion."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = nn.Parameter(torch.randn(3, W, W))
        self.leaf, self.join = nn.Linear(W, W), nn.Bilinear(W, W, W)

    def tree(self, x: torch.Tensor) -> torch.Tensor:
        if len(x) == 1:
            return self.leaf(x)
        return self.join(self.tree(x[: len(x) // 2]), self.tree(x[len(x) // 2 :])).tanh()  # @join

    def forward(self, x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        return torch.baddbmm(x.new_zeros(3, 1, 1), self.stack, x.t().expand(3, W, 3)).mean(0), self.tree(x[:2])


@model(conditional={"join.*": why("only in batch 1 of 2", at="join")})
def tree_and_ensemble() -> Setup:
    """A tree of one leaf joins nothing."""
    net = Vmapped()
    return Setup(net, [(torch.randn(3, W),), (torch.randn(1, W),)], lambda out, x: square(out[0]) + square(out[1]))
