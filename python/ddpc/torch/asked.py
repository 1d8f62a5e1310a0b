"""What a caller asks to be recorded, put in one form; what cannot be meant is an error that says what to pass."""

from __future__ import annotations

import re
from collections.abc import Iterable as AnyIterable, Mapping as AnyMapping
from typing import Any, Dict, Tuple

from torch import Tensor, nn

from .. import Error
from .text import ALONE, identifier

VIA = ("record", "export")


def steps_of(module: Any, batches: Any, loss: Any, steps: Any, via: str) -> Dict[str, Tuple[Any, Any]]:
    """Step -> (batches, loss), of the steps if there are any. A tensor or a mapping in place of batches is one batch."""
    if not isinstance(module, nn.Module):
        is_class = isinstance(module, type) and issubclass(module, nn.Module)
        raise Error(f"what is to be recorded is {'the class ' + module.__name__ if is_class else described(module)}, not an "
                    f"nn.Module\nhelp: pass the module itself{', ' + module.__name__ + '(...)' if is_class else ''}", 2)
    if via not in VIA:
        raise Error(f"via={via!r} is neither of {', '.join(map(repr, VIA))}", 2)
    if steps is None:
        steps = {ALONE: (batches, loss)}
    elif not isinstance(steps, AnyMapping) or not steps:
        raise Error(f"steps is {described(steps) if steps else 'empty'}; it maps names to (batches, loss)", 2)
    todo: Dict[str, Tuple[Any, Any]] = {}
    for name, step in steps.items():
        if name != ALONE and (not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", name)):
            raise Error(f"{name!r} cannot be the name of a step\nhelp: use a letter, then letters, digits, _, . and -", 2)
        twin = next((other for other in todo if identifier(other) == identifier(name)), None)
        if twin is not None:
            raise Error(f"steps {twin} and {name} are too alike; give one of them another name", 2)
        if not isinstance(step, (tuple, list)) or len(step) != 2:
            raise Error(f"step {name} is {described(step)}; it must be a pair (batches, loss)", 2)
        todo[name] = (batches_of(step[0]), step[1])
        if step[1] is not None and not callable(step[1]):
            raise Error(f"the loss is {described(step[1])}; pass a function loss(output, *batch) that returns a scalar "
                        "tensor", 2)
    return todo


def batches_of(batches: Any) -> Any:
    if isinstance(batches, (Tensor, AnyMapping)):
        return [batches]
    if batches is not None and (isinstance(batches, str) or not isinstance(batches, AnyIterable)
                                and not hasattr(batches, "__getitem__")):
        raise Error(f"the batches are {described(batches)}, not something to iterate over\n"
                    "help: pass a list of batches: tuples of arguments, mappings of keywords, or tensors", 2)
    return () if batches is None else batches


def described(thing: Any) -> str:
    return "None" if thing is None else f"of type {type(thing).__name__}"
