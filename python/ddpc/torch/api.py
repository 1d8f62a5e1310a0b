"""`export` and `check`: from a module and batches to a model's text, compared with autograd on the way."""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, Union

import torch
from torch import Tensor, nn

from .. import Error, command
from . import agree, text
from .asked import steps_of
from .branches import Branches
from .exported import exported
from .module import Parameters, eager, parameters_of, random_state, state_kept, unwrap
from .record import Recorder
from .trace import Trace

Batch = Union[Tensor, Sequence[Any], Mapping[str, Any]]
Loss = Callable[..., Tensor]
Steps = Mapping[str, Tuple[Iterable[Batch], Optional[Loss]]]

BY_ITSELF = "forward or the loss runs a backward pass of its own"
MOST_PATHS = 100  # branches of a text, each inside the one before; what a person still reads is far below


@dataclass
class Recording:
    """A recorded model."""

    text: str  #: the model in ddpc's language
    parameters: int  #: how many the module has
    batches: int  #: recorded and compared with autograd, in all steps together
    seconds: float  #: of recording, without the comparison
    notes: List[str]  #: what a reader must know about the recording

    def agreement(self) -> str:
        return (f"autograd agrees on {self.batches} batch{'es' if self.batches > 1 else ''}: "
                f"{self.parameters} of {self.parameters}")


def arguments(batch: Batch) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    """A batch as the arguments of a call: a tensor alone, a sequence of them, or a mapping of keywords."""
    if isinstance(batch, AnyMapping):
        return (), dict(batch)
    if isinstance(batch, (tuple, list)):
        return tuple(batch), {}
    return (batch,), {}


def named_tensors(thing: Any, name: str, above: Tuple[int, ...] = ()) -> Iterator[Tuple[str, Tensor]]:
    """The tensors of a nested structure with the names that a person would give them."""
    if isinstance(thing, Tensor):
        yield name, thing
    if id(thing) in above:  # it holds itself
        return
    above += (id(thing),)
    if isinstance(thing, AnyMapping):
        for key, item in thing.items():
            yield from named_tensors(item, f"{name}.{key}" if name else str(key), above)
    elif isinstance(thing, (tuple, list)):
        keys = getattr(thing, "_fields", None) or range(len(thing))
        for key, item in zip(keys, thing):
            yield from named_tensors(item, f"{name}.{key}" if name else str(key), above)
    elif hasattr(type(thing), "__dataclass_fields__"):
        for key in thing.__dataclass_fields__:
            yield from named_tensors(getattr(thing, key, None), f"{name}.{key}" if name else key, above)


def taken(module: nn.Module, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    """What a module's forward takes of a batch; the rest, such as the labels, is for the loss alone."""
    try:
        parameters = inspect.signature(module.forward).parameters
    except (TypeError, ValueError):  # a scripted module has none
        return args, kwargs
    kinds = [p.kind for p in parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        args = args[:sum(kind in named for kind in kinds)]
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        kwargs = {k: v for k, v in kwargs.items() if k in parameters}
    return args, kwargs


def fit(function: Callable[..., Any], what: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Says that a function cannot be called with a batch, before it is."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # builtins may have none
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise Error(f"{what}{signature} cannot be called with the batch: {error}\n"
                    "help: a batch is a tuple of arguments, a mapping of keywords, or one tensor; the loss is called as "
                    "loss(output, *batch) with the whole batch, forward with what it takes of it", 2) from None


def named_arguments(function: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]
                    ) -> Iterator[Tuple[str, Tensor]]:
    try:
        bound = inspect.signature(function).bind_partial(*args, **kwargs).arguments
    except (TypeError, ValueError):
        bound = {f"input_{i}": a for i, a in enumerate(args)}
        bound.update(kwargs)
    for name, value in bound.items():
        yield from named_tensors(value, name)


def loss_of(output: Any, loss: Optional[Loss], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Tensor:
    if loss is not None:
        fit(loss.forward if isinstance(loss, nn.Module) else loss, "the loss ", (output, *args), kwargs)
        value = loss(output, *args, **kwargs)
    elif isinstance(output, Tensor):
        value = output
    elif isinstance(output, AnyMapping) and isinstance(output.get("loss"), Tensor):
        value = output["loss"]
    else:
        value = getattr(output, "loss", None)
    if not isinstance(value, Tensor):
        raise Error(f"the loss is a {type(value).__name__}, not a tensor; pass a function loss(output, *batch) that "
                    "returns a scalar tensor" if loss is not None else
                    "no loss was given, and the module returns neither a tensor nor something with a `loss`", 2)
    if value.numel() != 1:
        raise Error(f"the loss has shape {list(value.shape)}; it must be a scalar: take its mean() or sum()" if loss else
                    f"no loss was given, and the module returns a tensor of shape {list(value.shape)}, which cannot be one", 2)
    if value.is_complex():
        raise Error("the loss is complex, which has no gradient; take its real part, or its abs()", 2)
    return value


def record(module: nn.Module, owned: Parameters, batch: Batch, loss: Optional[Loss], watched: Branches,
           via: str) -> Tuple[Trace, Set[str]]:
    """One batch: its trace, and the parameters that got a gradient."""
    whole, keywords = arguments(batch)
    args, kwargs = taken(module, whole, keywords) if loss is not None else (whole, keywords)
    fit(module.forward, f"{type(module).__name__}.forward", args, kwargs)
    recorder = Recorder(owned)
    trace = recorder.trace
    rewind = random_state()
    given = [*named_arguments(module.forward, args, kwargs)]
    if loss is not None:
        given += named_arguments(loss, (None, *whole), keywords)
    names = {*owned.parameters, *owned.buffers}
    for name, t in given:  # a tensor that both take goes by forward's name
        while name in names:
            name += "_input"
        names.add(name)
        recorder.add_input(name, t)
    with watched:
        run = module if via == "record" else exported(module, args, kwargs)
    with watched, recorder:
        output = run(*args, **kwargs)
        value = loss_of(output, loss, whole, keywords)
    recorder.set_loss(value)
    returned: Set[str] = set()
    for name, t in named_tensors(output, "" if isinstance(output, AnyMapping) else "output"):
        while name in returned:  # keys may differ and read the same, as 1 and "1"
            name += "_"
        returned.add(name)
        recorder.add_output(name, t)
    trace.frozen = {n for n, p in owned.parameters.items() if not p.requires_grad}
    if trace.replaced or run is not module:  # once more, as it trains
        del output, value
        rewind()
        value = loss_of(module(*args, **kwargs), loss, whole, keywords)
    early = [name for name, p in owned.parameters.items() if p.grad is not None]
    try:
        got, inside = agree.backward(value, owned.parameters)
    except RuntimeError as error:
        if not early or "a second time" not in str(error):
            raise
        raise Error(f"{BY_ITSELF}, and nothing is left of the graph\n"
                    "help: return the loss, and leave its backward() to the caller", 1) from error
    if early:
        trace.foreign.append(f"{BY_ITSELF}, which is not recorded; it gave a gradient to {', '.join(early[:5])}"
                             + (f" and {len(early) - 5} more" if len(early) > 5 else ""))
    trace.reached_inside(inside)
    trace.prune()
    return trace, got


def recording(module: nn.Module, batches: Optional[Iterable[Batch]], loss: Optional[Loss] = None, *,
              steps: Optional[Steps] = None, via: str = "record") -> Recording:
    """Records every batch of every step, writes the text, and compares it with autograd."""
    todo = steps_of(module, batches, loss, steps, via)
    module = unwrap(module)
    owned = parameters_of(module)
    notes = [] if module.training else ["the module is in eval mode; module.train() records what trains"]
    traces: Dict[str, List[Trace]] = {}
    seen: Dict[str, List[Set[str]]] = {}
    watched = Branches(module, *(step_loss for _, step_loss in todo.values() if step_loss is not None))
    start = time.perf_counter()
    with state_kept(module), torch.inference_mode(False), torch.enable_grad(), eager(module):
        for step, (step_batches, step_loss) in todo.items():
            known: Dict[tuple, Trace] = {}
            seen[step] = []
            for batch in step_batches:
                trace, got = record(module, owned, batch, step_loss, watched, via)
                seen[step].append(got)
                known.setdefault(trace.signature(), trace).add_batch(trace, len(seen[step]))
                if len(known) > MOST_PATHS:
                    raise Error(f"batches took {len(known)} different paths; give fewer batches, or fix what varies "
                                "(a random depth, the number of rounds of a loop) to the cases that matter", 1)
                notes += trace.foreign
            if not seen[step]:
                raise Error("there are no batches" + ("" if step == text.ALONE else f" for step {step}")
                            + "; one that the module takes is enough to begin with", 2)
            traces[step] = list(known.values())
    written = text.write(type(module).__name__, owned, traces, torch.__version__,
                         {"ddpc.not_taken": "\n".join(watched.not_taken())})
    notes += [watched.note] if watched.note else []
    seconds = time.perf_counter() - start
    total = agree.compare(written, traces, seen)
    return Recording(written, total, sum(map(len, seen.values())), seconds, list(dict.fromkeys(notes)))


def export(module: nn.Module, batches: Optional[Iterable[Batch]] = None, loss: Optional[Loss] = None, *,
           steps: Optional[Steps] = None, via: str = "record") -> str:
    """The text of a module's training step, for the `ddpc` command.

    `batches` is an iterable of what the module takes: tuples of arguments (or a mapping of keywords, or a tensor
    alone); what of a batch `forward` does not take, such as labels, only the loss gets. `loss(output, *batch)`, or
    `loss(output, **batch)` of a mapping, returns a scalar tensor; without it the module's output is the loss, or has a
    `loss`. Give as many batches as it takes to see every path: paths that differ become branches of the text, and the
    text says how many batches were observed. `steps` maps names to (batches, loss), for a module that trains in
    several ways, such as a GAN. `via="export"` records what torch.export makes of the module (torch 2.6 or newer)
    instead of the module's own calls.

    Runs a forward and a backward pass for each batch, on the device where the module is, and leaves parameters,
    buffers, gradients and random generators as they were. Raises `ddpc.Error` if the text and autograd disagree on
    who gets a gradient.
    """
    return recording(module, batches, loss, steps=steps, via=via).text


def check(module: nn.Module, batches: Optional[Iterable[Batch]] = None, loss: Optional[Loss] = None, *,
          steps: Optional[Steps] = None, via: str = "record") -> Dict[str, Any]:
    """Which parameters of a module get no gradient, and what to set in DistributedDataParallel.

    Arguments as in `export`; the result is the dict of `ddpc check --format=json`, whose keys docs/json.md lists.
    """
    return command.check(export(module, batches, loss, steps=steps, via=via))
