"""What a recording holds: the values and nodes of one forward pass and its loss.

A value is a tensor at one moment: in-place operations make new values. Nodes stand in the order of execution, so
every value is made before it is used. The gradient rules are those of autograd: a float input of a node gets a
gradient whenever a float output of it has one, and `StopGradient` marks where none passes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional, Set, Tuple

STOP = "StopGradient"


@dataclass
class Value:
    """A tensor at one moment."""

    kind: str  #: "parameter", "buffer", "input" or "node"
    dtype: str  #: ONNX's name of the element type, "" if it has none
    shape: Optional[Tuple[Optional[int], ...]]  #: sizes; None where they differ between batches
    name: str = ""  #: of a parameter, buffer or input
    stopped: bool = False  #: a parameter whose requires_grad was False at this use

    def widen(self, other: "Value") -> None:
        """Forgets what another batch has differently."""
        if self.dtype != other.dtype:
            self.dtype = ""
        if self.shape is None or other.shape is None or len(self.shape) != len(other.shape):
            self.shape = None
        else:
            self.shape = tuple(a if a == b else None for a, b in zip(self.shape, other.shape))


@dataclass
class Node:
    """A call: one operator, or a `StopGradient` with its reason."""

    op: str
    inputs: List[int]  #: indices of values
    outputs: List[int]  #: indices of values
    source: str = ""  #: "FILE:LINE" of the user's code
    reason: str = ""  #: of a StopGradient: "detach", "no_grad", ...


@dataclass
class Trace:
    """One forward pass of a module with one batch, up to the loss."""

    values: List[Value] = field(default_factory=list)
    nodes: List[Node] = field(default_factory=list)
    outputs: List[Tuple[str, int]] = field(default_factory=list)  #: of the module: (name, value)
    loss: int = -1  #: a value
    frozen: Set[str] = field(default_factory=set)  #: parameters whose requires_grad is False at the backward pass
    foreign: List[str] = field(default_factory=list)  #: tensors that train but are no parameters, in words
    replaced: bool = False  #: re-entrant checkpoints ran as plain calls, so this is not the code that trains
    inside: List[Tuple[Node, Set[int]]] = field(default_factory=list)  #: custom Functions, and what their code reads
    batches: List[int] = field(default_factory=list)  #: numbers of the batches that took this path, from 1

    def inputs(self) -> Dict[str, Value]:
        return {v.name: v for v in self.values if v.kind == "input"}

    def add_batch(self, other: "Trace", number: int) -> None:
        """Another batch that took the same path, perhaps with other sizes."""
        self.batches.append(number)
        for name, value in self.inputs().items():
            value.widen(other.inputs().get(name, value))

    def reached_inside(self, names: Set[str]) -> None:
        """Parameters whose gradient came from the backward of a custom Function that reads them by itself."""
        for node, read in self.inside:
            node.inputs += [v for v in sorted(read) if self.values[v].name in names and v not in node.inputs]

    def prune(self) -> None:
        """Drops what neither depends on a parameter nor reaches the loss or an output (counters, masks)."""
        depends = {i for i, v in enumerate(self.values) if v.kind == "parameter"}
        for node in self.nodes:
            if depends.intersection(node.inputs):
                depends.update(node.outputs)
        needed = {self.loss, *(v for _, v in self.outputs)}
        kept = []
        for node in reversed(self.nodes):
            if needed.intersection(node.outputs) or depends.intersection(node.outputs):
                needed.update(node.inputs)
                kept.append(node)
        self.nodes = kept[::-1]

    def signature(self) -> tuple:
        """Equal for traces in which the same gradients flow the same way, whatever their shapes and lines."""
        number: Dict[int, object] = {}

        def of(v: int) -> object:
            value = self.values[v]
            if value.kind != "node":
                return value.kind, value.name, value.stopped
            return number.setdefault(v, len(number))

        nodes = tuple((n.op, n.reason, tuple(map(of, n.inputs)), tuple(map(of, n.outputs)),
                       tuple(self.values[o].dtype for o in n.outputs)) for n in self.nodes)
        outputs = tuple((name, of(v)) for name, v in self.outputs)
        return nodes, outputs, of(self.loss), frozenset(self.frozen)
