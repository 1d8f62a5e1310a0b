"""What autograd itself does with a model: one plain forward and backward per batch, no ddpc.

DDP counts a gradient as there when the parameter's AccumulateGrad node has run, with whatever value, so a hook on
that node is the judge.
"""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Set

import torch
from torch import nn

from . import Setup, seed


def accumulator(p: torch.Tensor) -> Any:
    """The node that adds to `p.grad`; it lives as long as someone holds it."""
    return p.expand_as(p).grad_fn.next_functions[0][0]


def named(module: nn.Module) -> Dict[str, torch.Tensor]:
    """Each parameter once, under its first name."""
    return dict(module.named_parameters())


def gradients(module: nn.Module, run: Callable[[], torch.Tensor]) -> Set[str]:
    """Names of the parameters whose AccumulateGrad node ran in the backward of what `run` returns."""
    seen: Set[str] = set()

    def watch(name: str, p: torch.Tensor) -> List[Any]:
        node = accumulator(p)
        return [node, node.register_hook(lambda *_: seen.add(name))]

    # A module that flips requires_grad in its forward does so in place: watch all, for as long as the backward runs.
    flags = {name: p.requires_grad for name, p in named(module).items()}
    for p in named(module).values():
        p.requires_grad_(True)
    kept = [watch(name, p) for name, p in named(module).items()]
    for name, p in named(module).items():
        p.requires_grad_(flags[name])
    run().backward()
    for _, hook in kept:
        hook.remove()
    return seen


def observed(setup: Setup) -> Dict[str, List[Set[str]]]:
    """Step -> for each batch, who got a gradient."""
    seed()
    return {
        step: [gradients(setup.module, lambda: loss(setup.module(*batch), *batch)) for batch in batches]
        for step, (batches, loss) in setup.each().items()
    }
