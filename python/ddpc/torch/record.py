"""The recorder: runs a module and writes down every call that makes or changes a tensor.

A `TorchFunctionMode` sees the calls above autograd, as the user's code makes them, so each result already carries
autograd's own answer: its `grad_fn`. A value that needs a gradient is known by that edge, (grad_fn, output number),
any other by its tensor. After a call the recorder walks from the results' edges back to edges that it knows: where it
arrives is where the gradient goes, in autograd's own words. What the mode cannot see (scripted functions, extensions
in C++, views of a tensor that was written to) is found by the same walk when it is first used, and named after its
autograd node.

So an edge that carries a gradient is recorded if and only if autograd has it. Edges that carry none only serve the
reasons that a person reads; writing to a tensor through an alias of it may lose one.

Two things run otherwise than in training: the inside of a custom Function is not recorded, as only its backward
counts, and a re-entrant checkpoint runs as a plain call (or under no_grad, if none of its inputs needs a gradient,
which is what it amounts to); such a trace is marked `replaced`. A custom Function may be a checkpoint, too, and run
a backward pass of its own in its backward: what got its gradient so is said by `Trace.reached_inside`.
"""

from __future__ import annotations

import re
import weakref
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import checkpoint

from .module import Parameters, plainly
from .source import user_place
from .trace import STOP, Node, Trace, Value

DTYPES = {torch.float32: "float", torch.float64: "double", torch.float16: "float16", torch.bfloat16: "bfloat16",
          torch.int64: "int64", torch.int32: "int32", torch.int16: "int16", torch.int8: "int8", torch.uint8: "uint8",
          torch.bool: "bool", torch.complex64: "complex64", torch.complex128: "complex128"}
for _name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "uint16", "uint32", "uint64"):
    if hasattr(torch, _name):
        DTYPES[getattr(torch, _name)] = _name.replace("_", "")

is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)

Edge = Tuple[Any, int]  # an autograd node and the number of its output
Made = Tuple[Tensor, Optional[Edge], int]  # a result of a call, its edge, its value


def tensors_in(thing: Any, above: Tuple[int, ...] = ()) -> Iterator[Tensor]:
    """The tensors of nested lists, tuples, dicts and dataclasses, in order."""
    if isinstance(thing, Tensor):
        yield thing
        return
    items: Any = ()
    if isinstance(thing, dict):
        items = thing.values()
    elif isinstance(thing, (list, tuple, set)):
        items = thing
    elif hasattr(type(thing), "__dataclass_fields__"):
        items = [getattr(thing, name, None) for name in thing.__dataclass_fields__]
    if items and id(thing) not in above:  # else it holds itself
        for item in items:
            yield from tensors_in(item, (*above, id(thing)))


def op_name(func: Any) -> str:
    """What a call is called: `linear`, `add_`, and `data` for reading x.data."""
    func = getattr(func, "overloadpacket", func)  # aten.add.Tensor is add
    name = getattr(func, "__name__", "") or type(func).__name__
    if name in ("__get__", "__set__"):
        name = getattr(getattr(func, "__self__", None), "__name__", "attribute")
    namespace = getattr(func, "namespace", "") or getattr(func, "_qualified_op_name", "").partition("::")[0]
    name = name if namespace in ("", "aten") else f"{namespace}.{name}"
    return re.sub(r"[^A-Za-z0-9_.]", "_", name)


def version(t: Tensor) -> int:
    """Counts the writes to a tensor's memory."""
    return 0 if t.is_inference() else t._version


def address(t: Tensor) -> int:
    """Of a tensor's elements; 0 if it has none."""
    try:
        return t.data_ptr() if t.numel() else 0
    except RuntimeError:  # sparse, or a subclass without memory
        return 0


def value_of(t: Tensor, kind: str, name: str = "") -> Value:
    """A tensor as a text tells of it."""
    return Value(kind, DTYPES.get(t.dtype, ""), () if t.is_nested else tuple(int(n) for n in t.shape), name)


def edge_of(t: Tensor) -> Optional[Edge]:
    """Where a tensor stands in autograd's graph; None if it needs no gradient, or is a leaf."""
    try:
        return None if t.grad_fn is None else (t.grad_fn, t.output_nr)
    except RuntimeError:  # a view made under no_grad, of memory that was written to since: autograd does not say
        return None


class Recorder(TorchFunctionMode):
    """Records what runs inside its `with` block into `trace`."""

    def __init__(self, module: Parameters) -> None:
        super().__init__()
        self.trace = Trace()
        self._leaves: Dict[int, Tuple[Tensor, int]] = {}  # by id; the tensor keeps its id taken
        self._stopped: Dict[int, int] = {}  # value of a parameter -> value of its uses without requires_grad
        self._edges: Dict[Edge, int] = {}  # values that need a gradient; the keys keep autograd's nodes alive
        self._plain: Dict[int, Tuple["weakref.ref[Tensor]", int]] = {}  # other tensors, by id: value
        self._paused = False  # inside a custom Function
        self._inside: Set[int] = set()  # what the code of that reads
        self._cut = ""  # why nothing flows inside a region, if not because of no_grad
        self._flowing: Set[int] = set()  # values whose gradient goes to a parameter
        for kind, tensors in (("parameter", module.parameters), ("buffer", module.buffers)):
            for name, t in tensors.items():
                self._leaves[id(t)] = (t, self._value(t, kind, name))
                if kind == "parameter":
                    self._flowing.add(self._leaves[id(t)][1])
        self._memory = {address(t): v for t, v in self._leaves.values()}
        self._memory.pop(0, None)

    # ---- what the caller says ---------------------------------------------------------------------------------

    def add_input(self, name: str, t: Tensor) -> None:
        """A tensor of the batch."""
        if id(t) not in self._leaves:
            with plainly():
                self._leaves[id(t)] = (t, self._value(t, "input", name))

    def add_output(self, name: str, t: Tensor) -> None:
        """A tensor that the module returns."""
        with plainly():
            self.trace.outputs.append((name, self._of(t)))

    def set_loss(self, t: Tensor) -> None:
        with plainly():
            self.trace.loss = self._of(t)

    # ---- values -----------------------------------------------------------------------------------------------

    def _value(self, t: Tensor, kind: str = "node", name: str = "") -> int:
        self.trace.values.append(value_of(t, kind, name))
        return len(self.trace.values) - 1

    def _node(self, op: str, inputs: List[int], outputs: List[int], reason: str = "") -> None:
        self.trace.nodes.append(Node(op, inputs, outputs, user_place(), reason))

    def _stop(self, v: int, reason: str) -> int:
        value = self.trace.values[v]
        self.trace.values.append(Value("node", value.dtype, value.shape))
        self._node(STOP, [v], [len(self.trace.values) - 1], reason)
        return len(self.trace.values) - 1

    def _enter(self, edge: Edge, v: int, sources: Sequence[int]) -> None:
        self._edges[edge] = v
        if any(s in self._flowing for s in sources):
            self._flowing.add(v)

    def _leaf(self, t: Tensor) -> Optional[int]:
        known = self._leaves.get(id(t))
        if known is None:
            return None
        v = known[1]
        if self.trace.values[v].kind == "parameter" and not t.requires_grad:
            if v not in self._stopped:
                self._stopped[v] = self._value(t, "parameter", self.trace.values[v].name)
                self.trace.values[-1].stopped = True
            return self._stopped[v]
        return v

    def _of(self, t: Tensor) -> int:
        """The value that a tensor holds now."""
        edge = edge_of(t)
        if edge is not None:
            if edge not in self._edges:
                self._hidden(t, edge)
            return self._edges[edge]
        plain = self._plain.get(id(t))
        if plain is not None and plain[0]() is t:
            return plain[1]
        leaf = self._leaf(t)
        return leaf if leaf is not None else self._unseen(t)

    def _hidden(self, t: Tensor, edge: Edge) -> None:
        """A value made where the mode sees nothing: its sources are known from autograd."""
        name = re.sub(r"Backward\d*$", "", type(edge[0]).__name__)
        sources, v = self._sources(edge), self._value(t)
        self._enter(edge, v, sources)
        self._node(name or "hidden", sources, [v])
        if isinstance(edge[0], torch.autograd.function.BackwardCFunction):  # whose apply was taken before recording
            self.trace.inside.append((self.trace.nodes[-1], {v for _, v in self._leaves.values()}))

    def _unseen(self, t: Tensor) -> int:
        """A tensor without gradient that no recorded call made: a constant of the code, or memory of a leaf."""
        owner = self._memory.get(address(t)) if not t.requires_grad else None
        if owner is not None:
            v = self._stop(owner, "detach")
        else:
            v = self._value(t)
            self._node("constant", [], [v])
            if t.requires_grad:
                self.trace.foreign.append(f"a tensor of shape {list(t.shape)} that requires a gradient but is no "
                                          f"parameter of the module, used at {self.trace.nodes[-1].source}")
        self._remember(t, v)
        return v

    def _remember(self, t: Tensor, v: int) -> None:
        if t.requires_grad:  # a leaf that the code made: the tensor itself is its identity
            self._leaves[id(t)] = (t, v)
        else:
            self._plain[id(t)] = (weakref.ref(t), v)

    # ---- autograd's answer ------------------------------------------------------------------------------------

    def _sources(self, edge: Edge) -> List[int]:
        """The known values where the gradient of an unknown edge goes."""
        found: Dict[int, None] = {}
        visited, stack = {edge[0]}, [edge[0]]
        while stack:
            for fn, number in reversed(stack.pop().next_functions):
                if fn is None:
                    continue
                if (fn, number) in self._edges:
                    found[self._edges[fn, number]] = None
                elif type(fn).__name__ == "AccumulateGrad":
                    leaf = self._leaves.get(id(fn.variable))  # which required a gradient then, whatever it does now
                    found[self._unseen(fn.variable) if leaf is None else leaf[1]] = None
                elif fn not in visited:
                    visited.add(fn)
                    stack.append(fn)
        return sorted(found)

    # ---- calls ------------------------------------------------------------------------------------------------

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if is_compiling():  # torch.cond and its like compile what they are given: autograd has one node for it
            return func(*args, **(kwargs or {}))
        kwargs = kwargs or {}
        name = op_name(func)
        if self._paused:
            self._inside.update(self._leaves[id(t)][1] for t in tensors_in((args, kwargs)) if id(t) in self._leaves)
        if self._paused or name in SILENT:
            return func(*args, **kwargs)
        before = self._before(args, kwargs)
        result = func(*args, **kwargs)
        self._call(name, before, result)
        return result

    def _before(self, *args: Any) -> List[Tuple[Tensor, int, int]]:
        """The values that go in, as they are before the call changes them."""
        with plainly():
            return [(t, self._of(t), version(t)) for t in tensors_in(args)]

    def _call(self, name: str, before: List[Tuple[Tensor, int, int]], result: Any) -> None:
        with plainly():
            self._results(name, before, list(tensors_in(result)))

    def _results(self, name: str, before: List[Tuple[Tensor, int, int]], results: List[Tensor]) -> None:
        written = [t for t, _, old in before if version(t) != old]
        written += [t._base for t in written if t._base is not None]
        given = list(dict.fromkeys(v for _, v, _ in before))
        made: List[Made] = []
        for t in {id(t): t for t in [*results, *written]}.values():
            edge = edge_of(t)
            if edge is not None and edge in self._edges:
                continue
            if edge is None and t.requires_grad and id(t) in self._leaves:
                continue  # a trained leaf stays itself, whatever is written to it
            known = self._plain.get(id(t))
            if edge is None and not any(t is w for w in written):
                if known is not None and known[0]() is t or id(t) in self._leaves:
                    continue
            made.append((t, edge, self._value(t)))
        if made:
            self._write(name, given, made)
            return
        # Nothing new for autograd: a number for Python, or a write to a trained value that autograd does not see.
        changed = {v for t, v, _ in before if edge_of(t) is not None and any(t is w for w in written)}
        if name in TO_PYTHON or changed:
            for v in given:
                if v in self._flowing and v not in changed:
                    self._stop(v, self._reason() if changed else name)

    def _write(self, name: str, given: List[int], made: List[Made]) -> None:
        """One node for the outputs whose gradients go the same way; a stop where none goes."""
        groups: Dict[Tuple[int, ...], List[Made]] = {}
        for m in made:
            groups.setdefault(tuple(self._sources(m[1])) if m[1] else (), []).append(m)
        if len(groups) > 1:  # indices and masks carry nothing, so they can stand in any of the nodes
            plain = [m for m in groups.get((), []) if not carries(m[0])]
            if plain and len(plain) == len(groups[()]):
                del groups[()]
                next(iter(groups.values())).extend(plain)
        reached = {v for sources in groups for v in sources}
        for sources, group in groups.items():
            if not sources:
                self._write_without_gradient(name, given, group)
                continue
            inputs = []
            for v in given:
                if v in sources or v not in self._flowing:
                    inputs.append(v)
                elif v not in reached:
                    inputs.append(self._stop(v, "not differentiable"))
            inputs += [v for v in sources if v not in given]
            self._node(name, inputs, [v for _, _, v in group])
            for t, edge, v in group:
                if edge is not None:
                    self._enter(edge, v, sources)
                else:
                    self._remember(t, v)

    def _write_without_gradient(self, name: str, given: List[int], group: List[Made]) -> None:
        if name in ("detach", "data", "detach_") and len(given) == 1:
            for t, _, v in group:
                self._node(STOP, given, [v], "detach") if given[0] in self._flowing else self._node(name, given, [v])
                self._remember(t, v)
            return
        cut = any(v in self._flowing for v in given)
        raw = [v if not cut or not carries(t) else self._value(t) for t, _, v in group]
        self._node(name, given, raw)
        for (t, edge, v), r in zip(group, raw):
            if r != v:
                self._node(STOP, [r], [v], self._reason())
            if edge is not None:
                self._edges[edge] = v  # needs a gradient, but only for leaves that are no parameters
            else:
                self._remember(t, v)

    def _reason(self) -> str:
        if self._cut:
            return self._cut
        if torch.is_inference_mode_enabled():
            return "inference_mode"
        return "not differentiable" if torch.is_grad_enabled() else "no_grad"

    # ---- custom Functions ---------------------------------------------------------------------------------------

    def __enter__(self) -> "Recorder":
        recorder, base = self, torch.autograd.Function
        self._own_apply = base.__dict__.get("apply")  # else it is inherited

        def apply(cls: type, *args: Any, **kwargs: Any) -> Any:
            own = recorder._own_apply
            real = own.__get__(None, cls) if own is not None else super(base, cls).apply  # type: ignore[misc]
            if recorder._paused:
                return real(*args, **kwargs)
            if cls is checkpoint.CheckpointFunction:
                return recorder._checkpoint(real, *args)
            return recorder._function(cls.__name__, real, args, kwargs)

        base.apply = classmethod(apply)  # type: ignore[assignment]
        super().__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        if self._own_apply is not None:
            torch.autograd.Function.apply = self._own_apply  # type: ignore[method-assign]
        else:
            del torch.autograd.Function.apply

    def _function(self, name: str, apply: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        before, first = self._before(args, kwargs), len(self.trace.nodes)
        self._paused, self._inside = True, set()
        try:
            result = apply(*args, **kwargs)
        finally:
            self._paused = False
        self._call(re.sub(r"[^A-Za-z0-9_]", "_", name), before, result)
        self.trace.inside += [(node, self._inside) for node in self.trace.nodes[first:] if node.op != STOP]
        return result

    def _checkpoint(self, apply: Any, function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        self.trace.replaced = True
        cut = "a re-entrant checkpoint none of whose inputs needs a gradient"
        if torch.is_grad_enabled() and any(isinstance(a, Tensor) and a.requires_grad for a in args):
            results = function(*args)
            if isinstance(results, (Tensor, tuple)):
                given = results if isinstance(results, tuple) else (results,)
                through = [t for t in given if isinstance(t, Tensor) and carries(t)]
                joined = iter(Checkpoint.apply(len(through), *through, *args)) if through else iter(())
                given = tuple(next(joined) if isinstance(t, Tensor) and carries(t) else t for t in given)
                return given if isinstance(results, tuple) else given[0]
            cut = f"a re-entrant checkpoint of what returns a {type(results).__name__}, not tensors or a tuple of them"
        outer, self._cut = self._cut, self._cut or cut
        try:
            return apply(function, preserve_rng_state, *args)
        finally:
            self._cut = outer


class Checkpoint(torch.autograd.Function):
    """What a re-entrant checkpoint returns and takes: one result that is read gives all of that a gradient."""

    @staticmethod
    def forward(ctx: Any, n: int, *given: Any) -> Tuple[Tensor, ...]:
        ctx.rest = len(given) - n
        return tuple(t.data for t in given[:n])  # no views: they may be written to

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple[Optional[Tensor], ...]:
        return (None, *gradients, *[None] * ctx.rest)


def carries(t: Tensor) -> bool:
    """Elements of this type can carry a gradient, as far as a text tells, which has no name for some."""
    return t.is_floating_point() or t.is_complex() or t.dtype not in DTYPES


# Calls whose results are no new values of the model, and that are frequent: recording them costs time only.
SILENT = frozenset(["shape", "dtype", "device", "requires_grad", "grad_fn", "is_leaf", "ndim", "layout", "size", "dim",
                    "numel", "stride", "is_cuda", "is_sparse", "is_quantized", "is_mps", "is_meta", "_version", "names",
                    "requires_grad_", "__len__", "is_contiguous", "element_size", "data_ptr", "storage_offset",
                    "is_floating_point", "is_complex", "get_device", "register_hook", "retain_grad", "_set_grad_enabled",
                    "has_names", "is_nested", "output_nr", "is_inference", "__hash__", "__repr__", "__format__"])

# Calls that take a value out of torch.
TO_PYTHON = frozenset(["item", "tolist", "numpy", "is_nonzero", "equal", "allclose", "__array__", "__bool__", "__complex__",
                       "__contains__", "__float__", "__index__", "__int__"])
