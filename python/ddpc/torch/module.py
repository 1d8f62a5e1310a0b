"""The module under its wrappers: names, ties, buffers, and its state kept as it was.

torch.compile, DistributedDataParallel and PEFT put a prefix before every name. A name in a text, a plan, a
baseline or a policy has none: it is the name in the module that a person wrote.
"""

from __future__ import annotations

import random
import sys
from collections import OrderedDict
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Callable, ContextManager, Dict, Iterator

import torch
from torch import Tensor, nn

from .. import Error

PREFIXES = ("_orig_mod.", "module.", "base_model.model.")


def strip(name: str) -> str:
    """A parameter's name without what wrappers put before it."""
    while True:
        shorter = next((name[len(p):] for p in PREFIXES if name.startswith(p) and len(name) > len(p)), None)
        if shorter is None:
            return name
        name = shorter


def unwrap(module: nn.Module) -> nn.Module:
    """The module that a compiled or data-parallel one runs, so that its Python code is seen."""
    while True:
        if isinstance(module, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            module = module.module
        elif isinstance(getattr(module, "_orig_mod", None), nn.Module):
            module = module._orig_mod
        else:
            return module


def compiled(module: nn.Module) -> bool:
    """Whether something inside was compiled in place: a submodule, or a function that its class or its file has."""
    for m in module.modules():
        if getattr(m, "_compiled_call_impl", None) is not None or hasattr(m, "_orig_mod"):
            return True
        spaces = [vars(m), *map(vars, type(m).__mro__), vars(sys.modules.get(type(m).__module__, m))]
        if any(hasattr(getattr(f, "__dict__", None), "get") and "_torchdynamo_orig_callable" in f.__dict__
               for space in spaces for f in list(space.values())):
            return True
    return False


@contextmanager
def eager(module: nn.Module) -> Iterator[None]:
    """What was compiled in place runs as it is written (torch 2.6 or newer). Only where there is such a thing: under this
    stance torch.cond and its like, which compile what they are given, do not run."""
    stance = getattr(getattr(torch, "compiler", None), "set_stance", None)
    with stance("force_eager") if stance and compiled(module) else nullcontext():
        yield


def inner_path(module: nn.Module) -> str:
    """The path below a PEFT model to the module whose names have no prefix: "base_model.model", or "" without."""
    base = getattr(module, "base_model", None)
    wrapped = type(module).__module__.split(".")[0] == "peft" and isinstance(getattr(base, "model", None), nn.Module)
    names = [n for n, _ in module.named_parameters()]
    return "base_model.model" if wrapped and all(n.startswith("base_model.model.") for n in names) else ""


def plainly() -> ContextManager[None]:
    """Inside, tensors of a subclass are read as tensors: what the subclass overrides is for the user's calls."""
    return getattr(torch._C, "DisableTorchFunctionSubclass", torch._C.DisableTorchFunction)()


def accumulator(p: nn.Parameter) -> Any:
    """The AccumulateGrad node of a parameter that requires grad. Whoever hooks it must hold it: only a graph does else."""
    with torch.enable_grad(), plainly():
        alias = p.expand_as(p) if p.layout == torch.strided else p.clone()
        return alias.grad_fn.next_functions[0][0]


@dataclass
class Parameters:
    """All tensors that a module owns, by name."""

    parameters: Dict[str, nn.Parameter] = field(default_factory=dict)  #: each once, under its first name
    ties: Dict[str, str] = field(default_factory=dict)  #: further name -> first name
    buffers: Dict[str, Tensor] = field(default_factory=dict)
    path: str = ""  #: where the names begin, see inner_path


def parameters_of(module: nn.Module) -> Parameters:
    """Every name of every parameter and buffer; tied ones have one first name, in the order of registration."""
    found = Parameters(path=inner_path(module))
    seen: Dict[int, str] = {}
    prefix = found.path + "." if found.path else ""

    def short(prefix_of_module: str, name: str) -> str:
        full = f"{prefix_of_module}.{name}" if prefix_of_module else name
        return full[len(prefix):] if full.startswith(prefix) else full

    for path, child in module.named_modules(remove_duplicate=False):
        for name, p in child._parameters.items():
            if p is None:
                continue
            if isinstance(p, nn.parameter.UninitializedTensorMixin):
                raise Error(f"parameter {short(path, name)} has no shape yet: run the module once before it is "
                            "recorded", 2)
            first = seen.setdefault(id(p), short(path, name))
            if first == short(path, name):
                found.parameters[first] = p
            else:
                found.ties[short(path, name)] = first
        for name, b in child._buffers.items():
            if b is not None and short(path, name) not in found.buffers:
                found.buffers[short(path, name)] = b
    found.buffers = {name: b for name, b in found.buffers.items() if id(b) not in seen}  # some are parameters
    return found


def random_state() -> Callable[[], None]:
    """A function that sets all random generators back to where they are now."""
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    numpy = sys.modules.get("numpy")
    python, cpu = random.getstate(), torch.get_rng_state()
    gpu = [torch.cuda.get_rng_state(d) for d in devices]
    array = numpy.random.get_state() if numpy else None

    def rewind() -> None:
        random.setstate(python)
        torch.set_rng_state(cpu)
        for device, state in zip(devices, gpu):
            torch.cuda.set_rng_state(state, device)
        if numpy:
            numpy.random.set_state(array)

    return rewind


def attributes(module: nn.Module) -> Callable[[], None]:
    """A function that gives a module and those in it the attributes that they have now.

    What stands in their own dicts, lists and sets is put back, too: parameters, buffers, submodules, hooks, caches.
    """
    saved = [(vars(m), dict(vars(m))) for m in module.modules()]
    inside = [(c, c.copy()) for _, own in saved for c in own.values() if type(c) in (dict, OrderedDict, list, set)]

    def put_back() -> None:
        for container, old in [*saved, *inside]:
            container.clear()
            container.extend(old) if isinstance(container, list) else container.update(old)

    return put_back


def same(a: Tensor, b: Tensor) -> bool:
    """Whether the elements are known to be equal; unchanged memory is not written to, it may be expanded or a file's."""
    try:
        return torch.equal(a, b)
    except (RuntimeError, NotImplementedError):  # sparse, or on the meta device
        return False


@contextmanager
def state_kept(module: nn.Module) -> Iterator[None]:
    """Parameters, buffers, gradients, attributes and random generators are afterwards as before.

    All elements are copied first: a write through an alias, in C++ or in a hook of the backward pass shows nowhere.
    """
    rewind, put_back = random_state(), attributes(module)
    own = [(t, t.data, t.detach().clone(), t.grad if t.is_leaf else None, t.requires_grad, t.is_leaf)
           for t in {id(t): t for t in [*module.parameters(), *module.buffers()]}.values()]
    for p in module.parameters():
        p.grad = None
    deepest = sys.getrecursionlimit()
    sys.setrecursionlimit(deepest + 200)  # the recorder's own frames, on top of a module that recurses
    try:
        yield
    finally:
        sys.setrecursionlimit(deepest)
        rewind()
        put_back()
        with torch.no_grad():
            for t, memory, copy, grad, trains, leaf in own:
                if leaf and not t.is_leaf:
                    t.detach_()
                if not same(memory, copy):
                    memory.copy_(copy)
                t.data = memory
                if leaf and t.requires_grad != trains:
                    t.requires_grad_(trains)
                if leaf:
                    t.grad = grad
