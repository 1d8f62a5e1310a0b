"""Who really got a gradient, and whether the text says the same.

A parameter gets a gradient in the sense of DistributedDataParallel: its AccumulateGrad node runs in the backward pass,
whatever the value. For every batch the static answer is taken from the text with the batch's variant fixed, so what
is compared is the text that goes out.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator, List, Mapping, Sequence, Set, Tuple

import torch
from torch import Tensor, nn

from .. import Error, command
from .module import accumulator
from .text import ALONE, condition
from .trace import Trace


@contextmanager
def gradients_seen(parameters: Mapping[str, nn.Parameter]) -> Iterator[Set[str]]:
    """The names of the parameters whose gradient is accumulated inside; enter it between forward and backward."""
    seen: Set[str] = set()
    hooks = []
    for name, p in parameters.items():
        if p.requires_grad:
            node = accumulator(p)
            hooks.append((node, node.register_hook(lambda *_, name=name: seen.add(name))))
    try:
        yield seen
    finally:
        for _, hook in hooks:
            hook.remove()


def reachable(loss: Tensor) -> Set[int]:
    """The ids of the leaves that autograd's graph of the loss leads to."""
    visited, stack, leaves = {loss.grad_fn}, [loss.grad_fn], {id(loss)}
    while stack:
        fn = stack.pop()
        if hasattr(fn, "variable"):
            leaves.add(id(fn.variable))
        new = {f for f, _ in getattr(fn, "next_functions", ()) if f is not None} - visited
        visited |= new
        stack += new
    return leaves


def backward(loss: Tensor, parameters: Mapping[str, nn.Parameter]) -> Tuple[Set[str], Set[str]]:
    """Runs the backward pass and throws the gradients away; returns who got one, and who not from the loss's graph."""
    leaves = reachable(loss)
    with gradients_seen(parameters) as seen:
        if loss.requires_grad:
            loss.backward()
    for p in parameters.values():
        p.grad = None
    return seen, {name for name in seen if id(parameters[name]) not in leaves}


def compare(text: str, steps: Mapping[str, Sequence[Trace]], seen: Mapping[str, Sequence[Set[str]]]
            ) -> int:
    """Compares the text's answer with what autograd did; returns the number of parameters, the same in all batches.

    `seen[step][batch - 1]` are the parameters with a gradient. A difference is an Error that names the parameters.
    """
    wrong: List[str] = []
    total = 0
    for step, traces in steps.items():
        for k, trace in enumerate(traces):
            flags = [f"--assume={condition(step, i)}={'true' if i == k else 'false'}"
                     for i in range(min(k + 1, len(traces) - 1))]
            answer = command.check(text, *flags)
            said = next(s for s in answer["steps"] if step == ALONE or s["name"] == step)
            rows = [p for p in said["parameters"] if p["kind"] == "parameter"]
            total = len(rows)
            for batch in trace.batches:
                got = seen[step][batch - 1]
                for p in rows:
                    if (p["class"] == "always") != (p["name"] in got) or p["class"] == "conditional":
                        wrong.append(f"  {p['name']}: {'a gradient' if p['name'] in got else 'no gradient'} in batch "
                                     f"{batch}{'' if step == ALONE else ' of step ' + step}, but the recording says "
                                     f"{p['class']}: {p['reason']}")
    if wrong:
        shown = "\n".join(wrong[:20]) + (f"\n  and {len(wrong) - 20} more" if len(wrong) > 20 else "")
        raise Error(f"the recording disagrees with autograd; do not use it:\n{shown}\n"
                    "help: the module does something that the recorder does not see; please report it with this list", 1)
    return total
