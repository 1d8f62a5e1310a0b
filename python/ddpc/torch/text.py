"""Recordings to text: a model in ddpc's language, declared whole.

One step's distinct traces become the branches of one `If`: `variant_1` is true for the batches of the first trace,
and so on; the last trace is the last `else`. Each branch holds its whole trace and captures the parameters. Several
steps stand side by side in the graph, each with its own loss.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Dict, Iterable, List, Mapping, Sequence, Tuple

from .. import Error
from .module import Parameters
from .record import value_of
from .trace import STOP, Node, Trace, Value

ALONE = ""  # the step of a model that has one


def quoted(name: str) -> str:
    """A name as the language reads it."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return name
    return text(name)


def text(s: str) -> str:
    if re.search("[\0\ud800-\udfff]", s):
        raise Error(f"the name {s!r} has a character that no text can hold; rename it in the module", 2)
    return '"' + s.replace("\\", "\\\\").replace('"', '\\"') + '"'


def listed(names: Iterable[str], separators: str = ",") -> str:
    """Names in a property that separates them so."""
    names = list(names)
    for name in names:
        if any(c in name for c in separators):
            raise Error(f"{name!r} is frozen, tied or a buffer, and its name cannot be listed\n"
                        f"help: rename it in the module, without any of {separators!r}", 2)
    return ",".join(names)


def condition(step: str, k: int) -> str:
    """The name of the boolean that chooses trace k, from 0, of a step."""
    return f"variant_{k + 1}" if step == ALONE else f"{identifier(step)}_variant_{k + 1}"


def identifier(s: str) -> str:
    s = re.sub(r"[^A-Za-z0-9_]+", "_", s).strip("_") or "value"
    return "_" + s if s[0].isdigit() else s


def type_of(value: Value) -> str:
    if not value.dtype:
        return ""
    if value.shape is None:
        return f"{value.dtype}[] "  # of any rank
    shape = "[" + ",".join("?" if n is None else str(n) for n in value.shape) + "]" if value.shape else ""
    return f"{value.dtype}{shape} "


class Writer:
    """Builds the text of one model."""

    def __init__(self, parameters: Parameters, steps: Mapping[str, Sequence[Trace]]) -> None:
        self.p, self.steps = parameters, steps
        self.taken = {*parameters.parameters, *parameters.buffers}
        self.numbers = 0
        self.inputs: Dict[str, Value] = {}
        self.outputs: List[str] = []  # declarations
        self.info: List[str] = []  # types of the main graph's values
        self.lines: List[str] = []
        self.props: Dict[str, str] = {}
        self.frozen = {name for name in parameters.parameters
                       if all(name in t.frozen for traces in steps.values() for t in traces)}

    def name(self, wish: str) -> str:
        """A name that nothing has: the wish itself, if it is free."""
        wish = identifier(wish)
        free, n = wish, 2
        while free in self.taken:
            free, n = f"{wish}_{n}", n + 1
        self.taken.add(free)
        return free

    def number(self) -> str:
        while True:
            self.numbers += 1
            if f"v{self.numbers}" not in self.taken:
                return f"v{self.numbers}"

    # ---- one trace ------------------------------------------------------------------------------------------------

    def names_of(self, trace: Trace, ends: Mapping[int, str]) -> List[str]:
        """A name for every value; `ends` has those that must be called so."""
        names: List[str] = []
        used = {v for node in trace.nodes for v in (*node.inputs, *node.outputs)}
        for v, value in enumerate(trace.values):
            if value.kind == "node":
                names.append((ends.get(v) or self.number()) if v in used else "")
            else:
                names.append(value.name)
        return names

    def body(self, trace: Trace, ends: Sequence[Tuple[str, int]], frozen: Iterable[str], indent: str
             ) -> Tuple[List[str], List[str]]:
        """The nodes of a trace, whose results go by the names of `ends`, and the types of what they make."""
        wanted = {v: name for name, v in reversed(list(ends)) if trace.values[v].kind == "node"}
        names = self.names_of(trace, wanted)
        lines: List[str] = []
        stopped: Dict[int, str] = {}
        frozen = set(frozen)

        def use(v: int, node: Node) -> str:
            value = trace.values[v]
            if value.stopped and value.name not in frozen:
                if v not in stopped:
                    stopped[v] = self.number()
                    lines.append(self.node(stopped[v], STOP, [quoted(value.name)], node.source,
                                           "requires_grad is False", indent))
                return stopped[v]
            return quoted(names[v])

        for node in trace.nodes:
            inputs = [use(v, node) for v in node.inputs]
            lines.append(self.node(", ".join(quoted(names[o]) for o in node.outputs), node.op, inputs, node.source,
                                   node.reason, indent))
        for name, v in ends:
            if wanted.get(v) != name:
                lines.append(self.node(quoted(name), "alias", [quoted(names[v])], "", "", indent))
        given = {name for name, _ in ends}
        info = [f"{type_of(trace.values[o])}{quoted(names[o])}" for node in trace.nodes for o in node.outputs
                if trace.values[o].dtype and names[o] not in given]
        return lines, info

    @staticmethod
    def node(outputs: str, op: str, inputs: Sequence[str], source: str, reason: str, indent: str) -> str:
        attributes = [f"{k} = {text(v)}" for k, v in (("reason", reason), ("source", source)) if v]
        domain = "ddpc" if op == STOP else "torch"
        return (f"{indent}{outputs} = {domain}.{op}" + (f" <{', '.join(attributes)}>" if attributes else "")
                + f" ({', '.join(inputs)})")

    # ---- one step -------------------------------------------------------------------------------------------------

    def step(self, step: str, traces: Sequence[Trace]) -> None:
        prefix = "" if step == ALONE else identifier(step) + "_"
        loss = self.name(prefix + "loss")
        key = "ddpc.loss" if step == ALONE else f"ddpc.step.{step}"
        frozen = {name for name in self.p.parameters if all(name in t.frozen for t in traces)}
        own = [name for name in self.p.parameters if name in frozen - self.frozen]
        self.props[key] = loss if step == ALONE else f"loss={loss}" + (f" frozen={listed(own, ', ')}" if own else "")

        wishes = list(dict.fromkeys(n for t in traces for n, v in t.outputs if v != t.loss))
        given = {wish: self.name(prefix + wish) for wish in wishes}
        ends = [[(loss, t.loss)] + [(given[n], v) for n, v in t.outputs if v != t.loss] for t in traces]
        made: Dict[str, Value] = {}
        for trace, end in zip(traces, ends):
            for name, v in end:
                made.setdefault(name, replace(trace.values[v])).widen(trace.values[v])
        types = {name: type_of(value) for name, value in made.items()}
        if len(traces) == 1:
            lines, info = self.body(traces[0], ends[0], frozen, "   ")
            self.lines += lines
            self.info += info
        else:
            self.variants(step, traces, ends, types, frozen)
        self.outputs += [kind + name for name, kind in types.items()]

    def variants(self, step: str, traces: Sequence[Trace], ends: Sequence[Sequence[Tuple[str, int]]],
                 types: Mapping[str, str], frozen: Iterable[str]) -> None:
        results = list(types)
        total = sum(len(t.batches) for t in traces)
        for k, trace in enumerate(traces[:-1]):
            self.inputs[condition(step, k)] = Value("input", "bool", (), condition(step, k))
            batches = ", ".join(map(str, trace.batches))
            self.props[f"ddpc.branch.{condition(step, k)}"] = (
                f"batch{'es' if len(trace.batches) > 1 else ''} {batches} of {total}")

        def graph(k: int, indent: str) -> List[str]:
            """Trace k, or the If between it and those after it, as the lines of a subgraph."""
            own = {name: self.number() for name in results}
            head = ", ".join(f"{types[name]}{own[name]}" for name in results)
            has = dict(ends[k])
            lines, info = self.body(traces[k], [(own[name], v) for name, v in has.items()], frozen, indent + "   ")
            for name in results:
                if name not in has:  # this path returns no such output
                    lines.append(self.node(own[name], "absent", [], "", "", indent + "   "))
            block = [f"{indent}{self.name('variant_graph')} () => ({head})"]
            if info:
                block.append(f"{indent}<{', '.join(info)}>")
            return [*block, f"{indent}{{", *lines, f"{indent}}}"]

        def choose(k: int, names: Sequence[str], indent: str) -> List[str]:
            """The nodes that make `names` from trace k on."""
            if k == len(traces) - 2:
                otherwise = graph(k + 1, indent + "      ")
            else:
                own = [self.number() for _ in results]
                head = ", ".join(f"{types[name]}{o}" for name, o in zip(results, own))
                otherwise = [f"{indent}      {self.name('variant_graph')} () => ({head})", f"{indent}      {{",
                             *choose(k + 1, own, indent + "         "), f"{indent}      }}"]
            return [f"{indent}{', '.join(map(quoted, names))} = If ({condition(step, k)}) <",
                    f"{indent}   then_branch =", *graph(k, indent + "      "), f"{indent}   ,",
                    f"{indent}   else_branch =", *otherwise, f"{indent}>"]

        self.lines += choose(0, results, "   ")
        self.props["ddpc.paths" + ("" if step == ALONE else f".{step}")] = " ".join(
            f"{condition(step, k) if k < len(traces) - 1 else 'else'}={','.join(map(str, t.batches))}"
            for k, t in enumerate(traces))

    # ---- the whole ------------------------------------------------------------------------------------------------

    def write(self, name: str, version: str, more: Mapping[str, str]) -> str:
        for step, traces in self.steps.items():  # inputs have their names before anything else
            for trace in traces:
                for value in trace.inputs().values():
                    self.inputs.setdefault(value.name, replace(value)).widen(value)
            self.taken.update(condition(step, k) for k in range(len(traces)))
        self.taken.update(self.inputs)
        for step, traces in self.steps.items():
            self.step(step, traces)
        batches = sum(len(t.batches) for traces in self.steps.values() for t in traces)
        props = {"ddpc.complete": "true", "ddpc.evidence": f"observed, {batches} batch{'es' if batches > 1 else ''}",
                 **self.props, "ddpc.frozen": listed(n for n in self.p.parameters if n in self.frozen),
                 "ddpc.buffers": listed(self.p.buffers),
                 "ddpc.tie": ",".join("=".join(listed([n], ",=") for n in tie[::-1]) for tie in self.p.ties.items()),
                 "ddpc.module": f"model.{self.p.path}" if self.p.path else "", **more}
        shown = ",\n     ".join(f"{text(k)}: {text(v)}" for k, v in props.items() if v)
        owned = {**self.p.parameters, **self.p.buffers}
        declared = [f"{type_of(value_of(t, 'parameter'))}{quoted(name)}" for name, t in owned.items()]
        inputs = ", ".join(f"{type_of(value)}{quoted(name)}" for name, value in self.inputs.items())
        info = ",\n ".join([*declared, *self.info])
        return "\n".join([
            "<", '  ir_version: 10, opset_import: ["" : 21, "torch" : 1, "ddpc" : 1],',
            f'  producer_name: "ddpc.torch", producer_version: {text(version)},',
            f"  metadata_props: [\n     {shown}]", ">",
            f"{self.name(name)} ({inputs}) => ({', '.join(self.outputs)})", *([f"<{info}>"] if info else []),
            "{", *self.lines, "}", ""])


def write(name: str, parameters: Parameters, steps: Mapping[str, Sequence[Trace]], version: str,
          more: Mapping[str, str]) -> str:
    """The text of a recorded model. `steps` has each step's distinct traces; `more` is further metadata."""
    return Writer(parameters, steps).write(name, version, more)
