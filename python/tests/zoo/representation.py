"""Models that learn from themselves: teachers, twins, stopped gradients, frozen features."""
from __future__ import annotations

import copy
from typing import Tuple

import torch
import torch.nn.functional as F
from torch import nn

from . import Setup, model, why

X, H = 4, 6


def views() -> Tuple[torch.Tensor, torch.Tensor]:
    """Two float[3, X] of the same things."""
    x = torch.randn(3, X)
    return x + 0.1 * torch.randn(3, X), x + 0.1 * torch.randn(3, X)


def encoder() -> nn.Sequential:
    """float[n, X] -> float[n, H], with a batch normalization."""
    return nn.Sequential(nn.Linear(X, H), nn.BatchNorm1d(H), nn.ReLU(), nn.Linear(H, H))


def apart(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Negative cosine."""
    return -F.cosine_similarity(a, b).mean()


class Teacher(nn.Module):
    """BYOL: the student predicts what a slow copy of itself says."""

    def __init__(self, frozen: bool):
        super().__init__()
        self.student, self.predictor = encoder(), nn.Linear(H, H)
        self.teacher = copy.deepcopy(self.student)
        if frozen:
            self.teacher.requires_grad_(False)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            for slow, fast in zip(self.teacher.parameters(), self.student.parameters()):
                slow.mul_(0.99).add_(fast, alpha=0.01)
            target = self.teacher(b)  # @teacher
        return apart(self.predictor(self.student(a)), target)


@model(frozen=("teacher.*",))
def ema_teacher_frozen() -> Setup:
    return Setup(Teacher(True), [views(), views()], lambda y, *_: y)


@model(never={"teacher.*": why("no_grad", at="teacher")})
def ema_teacher_forgotten() -> Setup:
    """The copy still asks for gradients: DDP waits for them."""
    return Setup(Teacher(False), [views(), views()], lambda y, *_: y)


class SimSiam(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.predictor = encoder(), nn.Sequential(nn.Linear(H, 3), nn.ReLU(), nn.Linear(3, H))

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        za, zb = self.encoder(a), self.encoder(b)
        return (apart(self.predictor(za), zb.detach()) + apart(self.predictor(zb), za.detach())) / 2


@model()
def simsiam() -> Setup:
    """Each branch is detached once and used once: all train."""
    return Setup(SimSiam(), [views()], lambda y, *_: y)


class Moco(nn.Module):
    """A queue of keys, written in place."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(X, H)
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(H, 6), dim=0))
        self.register_buffer("place", torch.zeros(1, dtype=torch.int64))
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        q = F.normalize(self.query(a), dim=1)
        with torch.no_grad():
            for slow, fast in zip(self.key.parameters(), self.query.parameters()):
                slow.data = slow.data * 0.99 + fast.data * 0.01
            k = F.normalize(self.key(b), dim=1)
        positive, negative = torch.einsum("nc,nc->n", q, k)[:, None], q @ self.queue.clone().detach()
        logits = torch.cat([positive, negative], 1) * self.scale.exp()
        at = int(self.place)
        self.queue[:, at : at + len(k)] = k.t()
        self.place[0] = (at + len(k)) % self.queue.shape[1]
        return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.int64))


@model(frozen=("key.*",))
def moco_queue() -> Setup:
    return Setup(Moco(), [views(), views()], lambda y, *_: y)


class Clip(nn.Module):
    """Two towers that share their last layer, and a temperature."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = encoder(), encoder()
        self.right[3] = self.left[3]
        self.right[0].weight = self.left[0].weight
        self.logit_scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a, b = F.normalize(self.left(a), dim=-1), F.normalize(self.right(b), dim=-1)
        logits = self.logit_scale.exp() * a @ b.t()
        want = torch.arange(len(a))
        return (F.cross_entropy(logits, want) + F.cross_entropy(logits.t(), want)) / 2


@model()
def tied_towers() -> Setup:
    return Setup(Clip(), [views()], lambda y, *_: y)


class Probe(nn.Module):
    """A head on features that were made without gradients, by `region`."""

    def __init__(self, region: str):
        super().__init__()
        self.region = region
        self.body, self.head = nn.Sequential(nn.Linear(X, H), nn.Tanh()), nn.Linear(H, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.region == "inference":
            with torch.inference_mode():
                h = self.body(x)  # @inference
            h = h.clone()
        elif self.region == "no_grad":
            with torch.no_grad():
                h = self.body(x)  # @no_grad
        else:
            h = self.body(x).detach_()  # @detach_
        return self.head(h)


@model(never={"body.*": why("no_grad", at="no_grad")})
def probe_no_grad() -> Setup:
    return Setup(Probe("no_grad"), [(torch.randn(2, X),)], lambda y, x: y.pow(2).mean())


@model(never={"body.*": why("inference", at="inference")})
def probe_inference() -> Setup:
    return Setup(Probe("inference"), [(torch.randn(2, X),)], lambda y, x: y.pow(2).mean())


@model(never={"body.*": why("detached", at="detach_")})
def probe_detached_in_place() -> Setup:
    return Setup(Probe("detach_"), [(torch.randn(2, X),)], lambda y, x: y.pow(2).mean())
