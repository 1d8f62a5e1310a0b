"""Models that generate: adversaries, codebooks, variational and flow models."""
from __future__ import annotations

from typing import Tuple

import torch
import torch.nn.functional as F
from torch import nn

from . import Setup, model, why

Z, X = 3, 4


def mlp(*sizes: int) -> nn.Sequential:
    """Linear layers with ReLU in between."""
    layers = [part for a, b in zip(sizes, sizes[1:]) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


class Gan(nn.Module):
    """Both players in one module; `turn` says who learns."""

    def __init__(self) -> None:
        super().__init__()
        self.generator, self.critic = mlp(Z, 8, X), mlp(X, 8, 1)

    def forward(self, turn: str, z: torch.Tensor, real: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        fake = self.generator(z)
        if turn == "d":
            return self.critic(fake.detach()), self.critic(real)  # @detach
        return (self.critic(fake),)  # @play


def d_loss(scores: Tuple[torch.Tensor, ...], *batch: object) -> torch.Tensor:
    fake, real = scores
    return F.softplus(fake).mean() + F.softplus(-real).mean()


def g_loss(scores: Tuple[torch.Tensor, ...], *batch: object) -> torch.Tensor:
    return F.softplus(-scores[0]).mean()


def _turn(turn: str) -> Tuple[str, torch.Tensor, torch.Tensor]:
    return turn, torch.randn(2, Z), torch.randn(2, X)


@model(never={"d:generator.*": why("detach", at="detach")}, verdict="flag_needed")
def gan_detached() -> Setup:
    """Under one wrapper the generator is missing in every step of the critic."""
    d = [_turn("d"), _turn("d")], d_loss
    return Setup(Gan(), *d, {"d": d, "g": ([_turn("g")], g_loss)})


class ToggledGan(Gan):
    """Whoever does not learn is frozen for the turn, and the generator does not even record when the critic learns."""

    def forward(self, turn: str, z: torch.Tensor, real: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        self.critic.requires_grad_(turn == "d")
        self.generator.requires_grad_(turn == "g")
        return super().forward(turn, z, real)


@model(frozen=("d:generator.*", "g:critic.*"), verdict="flag_needed")
def gan_toggled() -> Setup:
    """requires_grad flips between the steps."""
    d = [_turn("d")], d_loss
    return Setup(ToggledGan(), *d, {"d": d, "g": ([_turn("g")], g_loss)})


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(X, 8), nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        x = x.detach().requires_grad_()
        y = self.out(torch.tanh(self.hidden(x)))
        return y, x


def _penalty(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """(|dy/dx| - 1)²; differentiable again."""
    slope, = torch.autograd.grad(y.sum(), x, create_graph=True)  # @slope
    return (slope.norm(dim=1) - 1).pow(2).mean()


@model()
def gradient_penalty() -> Setup:
    """WGAN-GP: a gradient of the critic is part of its loss."""
    return Setup(Critic(), [(torch.randn(3, X),)], lambda out, x: out[0].mean() + 10 * _penalty(*out))


@model(never={"out.bias": why("grad|output", at="slope")})
def gradient_penalty_only() -> Setup:
    """A slope does not depend on the last bias."""
    return Setup(Critic(), [(torch.randn(3, X),)], lambda out, x: _penalty(*out))


class Codebook(nn.Module):
    """Vector quantization with a straight-through estimator."""

    def __init__(self, learns: bool, moves: bool = False):
        super().__init__()
        self.learns, self.moves = learns, moves
        self.encoder, self.decoder = nn.Linear(X, Z), nn.Linear(Z, X)
        if moves:
            self.register_buffer("codes", torch.randn(5, Z))
            self.register_buffer("counts", torch.ones(5))
        else:
            self.codes = nn.Parameter(torch.randn(5, Z))

    def forward(self, x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        z = self.encoder(x)
        index = torch.cdist(z, self.codes).argmin(1)
        q = self.codes[index]
        commitment = F.mse_loss(z, q.detach())
        if self.learns:
            commitment = commitment + F.mse_loss(q, z.detach())
        if self.moves and self.training:
            with torch.no_grad():
                hits = F.one_hot(index, 5).type_as(z)
                self.counts.mul_(0.9).add_(hits.sum(0), alpha=0.1)
                self.codes.lerp_(hits.t() @ z / self.counts[:, None], 0.1)
        return self.decoder(z + (q - z).detach()), commitment  # @straight_through


def _vq_loss(out: Tuple[torch.Tensor, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(out[0], x) + 0.25 * out[1]


@model()
def vq_vae() -> Setup:
    return Setup(Codebook(True), [(torch.randn(4, X),)], _vq_loss)


@model(never={"codes": why("detach|argmin")})
def vq_vae_dead_codebook() -> Setup:
    """The codebook's own loss was forgotten: its ways end at argmin and at two detach."""
    return Setup(Codebook(False), [(torch.randn(4, X),), (torch.randn(2, X),)], _vq_loss)


@model()
def vq_vae_moving_codebook() -> Setup:
    """The codebook is a buffer that follows the encoder."""
    return Setup(Codebook(False, moves=True), [(torch.randn(4, X),), (torch.randn(4, X),)], _vq_loss)


class Vae(nn.Module):
    """A Gaussian latent, a relaxed category, and a hard choice with a straight-through gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(X, 2 * Z + 5), nn.Linear(Z + 5, X)

    def forward(self, x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        mean, log_scale, category = self.encoder(x).split([Z, Z, 5], 1)
        normal = torch.distributions.Normal(mean, log_scale.exp())
        kl = torch.distributions.kl_divergence(normal, torch.distributions.Normal(0.0, 1.0)).sum(1).mean()
        z = torch.cat([normal.rsample(), F.gumbel_softmax(category, hard=True)], 1)
        return self.decoder(z), kl


@model()
def vae() -> Setup:
    return Setup(Vae(), [(torch.randn(4, X),), (torch.randn(4, X),)], _vq_loss)


class Policy(nn.Module):
    """Actor and critic on one body; an action is sampled, its advantage is detached."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.actor, self.value = nn.Linear(X, 8), nn.Linear(8, 3), nn.Linear(8, 1)

    def forward(self, state: torch.Tensor, reward: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        h = self.body(state).tanh()
        choice = torch.distributions.Categorical(logits=self.actor(h))
        value = self.value(h).squeeze(1)
        advantage = (reward - value).detach()  # @advantage
        return -(choice.log_prob(choice.sample()) * advantage).mean(), choice.entropy().mean(), value


@model(never={"value.*": why("detach|value|output")})
def reinforce_dead_critic() -> Setup:
    """The value's own loss was forgotten."""
    return Setup(Policy(), [(torch.randn(3, X), torch.randn(3))], lambda out, *_: out[0] - 0.01 * out[1])


@model()
def actor_critic() -> Setup:
    return Setup(
        Policy(), [(torch.randn(3, X), torch.randn(3))],
        lambda out, state, reward: out[0] - 0.01 * out[1] + F.mse_loss(out[2], reward),
    )


class HardAttention(nn.Module):
    """Chooses a row by the best score; the score itself learns nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.score, self.value = nn.Linear(X, 1), nn.Linear(X, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        best = self.score(x).squeeze(-1).argmax(1)  # @argmax
        return self.value(x)[torch.arange(len(x)), best]


@model(never={"score.*": why("argmax", at="argmax")})
def hard_attention() -> Setup:
    return Setup(HardAttention(), [(torch.randn(2, 5, X),)], lambda y, x: y.pow(2).mean())


class Coupling(nn.Module):
    """Two steps of an invertible flow: chunk, in-place affine, flip; the loss is a log-likelihood."""

    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList(mlp(2, 8, 4) for _ in range(2))

    def forward(self, x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        log_det = x.new_zeros(len(x))
        for net in self.nets:
            a, b = x.chunk(2, 1)
            scale, shift = net(a).chunk(2, 1)
            b = b.clone().mul_(scale.tanh().exp()).add_(shift)
            log_det += scale.tanh().sum(1)
            x = torch.cat([b, a], 1)
        return x, log_det


@model()
def normalizing_flow() -> Setup:
    return Setup(Coupling(), [(torch.randn(3, X),)], lambda out, x: (out[0].pow(2).sum(1) / 2 - out[1]).mean())
