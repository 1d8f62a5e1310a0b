"""A module as torch.export sees it, to be recorded in its place.

torch.export (used from torch 2.6 on) turns a module into a graph of ATen operators; what it unlifts again shares the
module's parameters, keeps `detach` and no_grad regions, and is run under the same recorder. Its nodes know the user's
lines. The gradients that the recording is compared with are those of the module itself, so that what an export got
wrong is noticed.
"""

from __future__ import annotations

import traceback
from typing import Any, Callable, Dict, Tuple

import torch
from torch import nn

from .. import Error
from . import source

OLDEST = (2, 6)


def version() -> Tuple[int, ...]:
    return tuple(int("".join(filter(str.isdigit, n)) or 0) for n in torch.__version__.split("+")[0].split(".")[:2])


def exported(module: nn.Module, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Callable[..., Any]:
    """What torch.export makes of a module for the arguments of one batch, with the module's own tensors."""
    if version() < OLDEST:
        raise Error(f"via export needs torch {OLDEST[0]}.{OLDEST[1]} or newer, this is {torch.__version__}\n"
                    "help: record the calls instead, which needs nothing (--via=record, the default)", 2)
    try:
        graph = torch.export.export(module, args, kwargs, strict=False).module()
    except Exception as error:  # whatever a tracer can meet in a user's code
        said = (str(error).strip() or "without words").splitlines()
        frames = [f for f in traceback.extract_tb(error.__traceback__) if source.is_user(f.filename)]
        at = f" at {source.place(frames[-1].filename, frames[-1].lineno)}" if frames else ""
        raise Error(f"torch.export cannot export the module{at}: {type(error).__name__}: {said[0]}\n"
                    "help: record the calls instead, which follows all of Python (--via=record, the default)", 1) from error
    for name, tensor in [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]:
        path, _, last = name.rpartition(".")
        try:
            owner = graph.get_submodule(path)
        except AttributeError:
            continue  # the graph does not read it
        for table in (owner._parameters, owner._buffers):
            if last in table:
                table[last] = tensor
    return graph
