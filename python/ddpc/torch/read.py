"""Reads a recording back: the text that `export` writes, as parameters, steps and paths.

It reads the part of the language that recordings use, in whatever layout, so that `ddpc fmt` may have been over the
file; what else the language has is refused. Each distinct trace is a *path*: the whole graph if all batches took one,
else what the chain of `If`s holds for its variants.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, NoReturn, Set, Tuple, Union

from .. import Error

TOKEN = re.compile(r'\s*(?:(//[^\n]*|#[^\n]*)|("(?:[^"\\]|\\.)*")|(=>)|([A-Za-z_][\w.]*|-?\d[\w.+-]*|[?])|([][<>(){},=:]))', re.S)


@dataclass
class Node:
    """A recorded call."""

    op: str  #: without its domain
    inputs: List[str]
    outputs: List[str]
    attributes: Dict[str, Any]

    @property
    def source(self) -> str:
        return self.attributes.get("source", "")

    @property
    def reason(self) -> str:
        return self.attributes.get("reason", "")


@dataclass
class Graph:
    """A graph, of a branch or the whole."""

    inputs: Dict[str, str] = field(default_factory=dict)  #: name -> type
    outputs: Dict[str, str] = field(default_factory=dict)
    types: Dict[str, str] = field(default_factory=dict)
    nodes: List[Node] = field(default_factory=list)


@dataclass
class Path:
    """What the batches of one variant ran."""

    label: str  #: "" for the only one
    nodes: List[Node]
    types: Dict[str, str]  #: of the values of `nodes`


@dataclass
class Recorded:
    """A recording that was read back."""

    text: str
    version: str  #: of torch
    metadata: Dict[str, str]
    graph: Graph

    def listed(self, key: str) -> List[str]:
        return [n for n in self.metadata.get(key, "").split(",") if n]

    def ties(self) -> Dict[str, str]:
        """Further name -> first name."""
        pairs = (pair.partition("=") for pair in self.listed("ddpc.tie"))
        return {other: first for first, _, other in pairs}

    def leaves(self) -> Set[str]:
        """Parameters, buffers and inputs: what no node makes."""
        return {*self.graph.types, *self.graph.inputs} - {o for n in self.graph.nodes for o in n.outputs}

    def paths(self) -> List[Path]:
        plain = [n for n in self.graph.nodes if n.op != "If"]
        found = [Path("", plain, {**self.graph.types, **self.graph.outputs})] if plain else []
        for node in self.graph.nodes:
            if node.op == "If":
                found += self.variants(node)
        return found

    def variants(self, node: Node) -> List[Path]:
        found = []
        for key in ("then_branch", "else_branch"):
            graph: Graph = node.attributes[key]
            if len(graph.nodes) == 1 and graph.nodes[0].op == "If":
                found += self.variants(graph.nodes[0])
            else:
                name = node.inputs[0]
                label = self.metadata.get(f"ddpc.branch.{name}", name) if key == "then_branch" else "the other batches"
                found.append(Path(label, graph.nodes, {**graph.types, **graph.outputs}))
        return found


class Reader:
    """A recursive descent over the tokens of a text."""

    def __init__(self, text: str) -> None:
        self.tokens: List[Tuple[str, int]] = []
        at = 0
        while at < len(text.rstrip()):
            m = TOKEN.match(text, at)
            if not m:
                self.line = text.count("\n", 0, at) + 1
                self.fail(text[at:at + 10].strip())
            at = m.end()
            if not m[1]:
                self.tokens.append((m[0].strip(), m.start()))
        self.text, self.i = text, 0

    def fail(self, found: str) -> NoReturn:
        raise Error(f"line {self.line}: {found!r} is not what a recording has here", 2)

    @property
    def now(self) -> str:
        return self.tokens[self.i][0] if self.i < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        found = self.now
        if not found or (wanted and found != wanted):
            at = self.tokens[min(self.i, len(self.tokens) - 1)][1] if self.tokens else 0
            self.line = self.text.count("\n", 0, at) + 1
            self.fail(found or "the end")
        self.i += 1
        return found

    def skip(self, token: str) -> bool:
        if self.now == token:
            self.i += 1
            return True
        return False

    def name(self) -> str:
        found = self.take()
        return re.sub(r"\\(.)", r"\1", found[1:-1], flags=re.S) if found[0] == '"' else found

    def typed(self) -> Tuple[str, str]:
        """A value's type, perhaps empty, and its name."""
        first = self.name()
        shape = ""
        if self.skip("["):
            while not self.skip("]"):
                shape += self.take()
            shape = f"[{shape}]"
        elif self.now in (",", ")", ">"):
            return "", first
        return first + shape, self.name()

    def values(self, end: str) -> Dict[str, str]:
        found: Dict[str, str] = {}
        while not self.skip(end):
            kind, name = self.typed()
            found[name] = kind
            self.skip(",")
        return found

    def names(self, end: str) -> List[str]:
        found = []
        while not self.skip(end):
            found.append(self.name())
            self.skip(",")
        return found

    def attribute(self) -> Any:
        if self.skip("["):
            found: List[Any] = []
            while not self.skip("]"):
                found.append(self.name())
                if self.skip(":"):
                    found[-1] = (found[-1], self.name())
                self.skip(",")
            return found
        if self.now[:1] == '"' or self.tokens[self.i + 1][0] != "(":
            return self.name()
        self.take()
        return self.graph()

    def attributes(self, assign: str) -> Dict[str, Any]:
        found: Dict[str, Any] = {}
        if self.skip("<"):
            while not self.skip(">"):
                key = self.name()
                self.take(assign)
                found[key] = self.attribute()
                self.skip(",")
        return found

    def graph(self) -> Graph:
        """From its inputs on."""
        self.take("(")
        found = Graph(inputs=self.values(")"))
        self.take("=>")
        self.take("(")
        found.outputs = self.values(")")
        if self.skip("<"):
            found.types = self.values(">")
        self.take("{")
        while not self.skip("}"):
            outputs = self.names("=")
            op = self.take().split(".", 1)[-1]
            attributes = self.attributes("=")
            self.take("(")
            inputs = self.names(")")
            found.nodes.append(Node(op, inputs, outputs, {**attributes, **self.attributes("=")}))
        return found


def parse(text: str) -> Recorded:
    """Reads a text; an Error says what is not a recording's."""
    reader = Reader(text)
    try:
        head = reader.attributes(":")
        producer = head.get("producer_name", "")
        if producer != "ddpc.torch":
            raise Error(f"its producer is {producer!r}, not 'ddpc.torch'" if producer else "it names no producer", 2)
        reader.name()
        graph = reader.graph()
    except (IndexError, TypeError):
        raise Error("it ends too early", 2) from None
    return Recorded(text, head.get("producer_version", ""), dict(head.get("metadata_props", [])), graph)


def read(path: "Union[str, os.PathLike[str]]") -> Recorded:
    """Reads a file that `export` wrote."""
    try:
        with open(path, encoding="utf-8") as f:
            return parse(f.read())
    except (OSError, UnicodeDecodeError) as error:
        raise Error(f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is not UTF-8'}", 2) from None
    except Error as error:
        raise Error(f"{path} is no recording of ddpc.export: {error}\nhelp: write it with `python -m ddpc.export … -o "
                    f"{path}`", 2) from None
