"""What differs between a recording that was written and the model of today, in the model's terms.

*Changes* matter to who gets a gradient or to what a plan of it would be: parameters, ties, what is frozen, classes with
their reasons, buffers, losses and outputs, operators with their lines, the paths that batches took. *Notes* do not: lines
that moved, sizes of activations, another version of torch, another number of batches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, Dict, Iterable, List, Sequence, Set, Tuple

from .. import Error, command
from .read import Path, Recorded, parse, read

__all__ = ["Drift", "compare", "read"]
BRANCH = "ddpc.branch."
SHOWN = 8  #: names or operators in one line
NEAR = 2  #: operators of the same line that are shown next to one that differs


@dataclass
class Drift:
    """The result of a comparison."""

    changes: List[str] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)


def some(names: Sequence[str], most: int = SHOWN) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def plural(n: int, word: str) -> str:
    return f"{n} {word}{'s' if n != 1 else ''}"


def typed(p: Dict[str, Any]) -> str:
    return f"{p['dtype']}[{','.join(map(str, p['shape']))}]"


def why(p: Dict[str, Any]) -> str:
    """A class with its reason and the line."""
    if p["class"] in ("always", "frozen"):
        return p["class"]
    source = p.get("source")
    place = f"{source['file']}:{source['line']}" if source else ""
    return f"{p['class']}: {p['reason']}" + (f" ({place})" if place and place not in p["reason"] else "")


# ---- parameters and buffers -----------------------------------------------------------------------------------------


def owned(answer: Dict[str, Any], step: int, kind: str) -> Dict[str, Dict[str, Any]]:
    return {p["name"]: p for p in answer["steps"][step]["parameters"] if p["kind"] == kind}


def grouped(changes: Iterable[Tuple[str, str]], what: str) -> List[str]:
    """One line for the names to which the same happened."""
    by: Dict[str, List[str]] = {}
    for name, change in changes:
        by.setdefault(change, []).append(name)
    return [f"{what}{'s' if len(names) > 1 else ''} {some(names)}: {change}" for change, names in by.items()]


def tensors(old: Dict[str, Any], new: Dict[str, Any], old_ties: Dict[str, str], new_ties: Dict[str, str]) -> List[str]:
    """Parameters and buffers that came, went, were tied or look different."""
    found: List[str] = []
    for kind in ("parameter", "buffer"):
        was, now = owned(old, 0, kind), owned(new, 0, kind)
        changes: List[Tuple[str, str]] = []
        for name, p in was.items():
            if name not in now:
                if name not in new_ties:
                    changes.append((name, f"removed; it was {typed(p)}" + (f", {p['class']}" if kind == "parameter" else "")))
            elif p["shape"] != now[name]["shape"] or p["dtype"] != now[name]["dtype"]:
                changes.append((name, f"{typed(p)} → {typed(now[name])}"))
        for name, p in now.items():
            if name not in was and name not in old_ties:
                changes.append((name, f"added: {typed(p)}" + (f", {why(p)}" if kind == "parameter" else "")))
        common = [n for n in was if n in now]
        if not changes and common != [n for n in now if n in was]:
            found.append(f"{kind}s are registered in another order")
        found += grouped(changes, kind)
    own = owned(new, 0, "parameter")
    for name in dict.fromkeys([*old_ties, *new_ties]):
        was_tied, is_tied = old_ties.get(name), new_ties.get(name)
        if was_tied != is_tied:
            found.append(f"parameter {name}: "
                         + (f"now tied to {is_tied}" if is_tied else f"no longer tied to {was_tied}")
                         + (f" instead of {was_tied}" if is_tied and was_tied else "")
                         + (f"; {typed(own[name])}, {why(own[name])}" if name in own else ""))
    return found


def classes(old: Dict[str, Any], new: Dict[str, Any]) -> List[str]:
    """Steps that came or went, and parameters whose class changed in a step."""
    was, now = ({s["name"]: i for i, s in enumerate(a["steps"])} for a in (old, new))
    found = [f"step {name}: removed" for name in was if name not in now]
    found += [f"step {name}: added" for name in now if name not in was]
    for name in was:
        if name in now:
            before, after = owned(old, was[name], "parameter"), owned(new, now[name], "parameter")
            of = f" in step {name}" if len(now) > 1 else ""
            found += grouped(((p, f"{before[p]['class']} → {why(after[p])}{of}") for p in before if p in after
                              and before[p]["class"] != after[p]["class"]), "parameter")
    return found


# ---- operators ------------------------------------------------------------------------------------------------------


class Line:
    """The nodes of a path as tokens that can be compared."""

    def __init__(self, path: Path, leaves: Set[str]) -> None:
        self.path, self.nodes = path, path.nodes
        self.tokens = [(n.op, n.reason, tuple(i for i in n.inputs if i in leaves)) for n in self.nodes]
        made = {o: (k, j) for k, n in enumerate(self.nodes) for j, o in enumerate(n.outputs)}
        self.wires = [tuple(made.get(i, i) for i in n.inputs) for n in self.nodes]

    def dtypes(self, k: int) -> List[str]:
        return [self.path.types.get(o, "").partition("[")[0] for o in self.nodes[k].outputs]

    def shapes(self, k: int) -> List[str]:
        return [self.path.types.get(o, "") for o in self.nodes[k].outputs]

    def show(self, a: int, b: int, full: bool) -> str:
        """Operators a to b, with their parameters if `full`."""
        words = []
        for n, (_, _, own) in zip(self.nodes[a:b], self.tokens[a:b]):
            inner = [n.reason] if n.reason else list(own) if full else []
            words.append(n.op + (f"({', '.join(inner)})" if inner else ""))
        return some(words) or "nothing"

    def widen(self, a: int, b: int) -> Tuple[int, int]:
        """How many neighbours before a and after b stand on the lines of the nodes at these ends."""
        before = after = 0
        if a < b:
            while a - before > 0 and self.nodes[a - before - 1].source == self.nodes[a].source:
                before += 1
            while b + after < len(self.nodes) and self.nodes[b + after].source == self.nodes[b - 1].source:
                after += 1
        return before, after


def operators(old: Line, new: Line) -> List[str]:
    """Where two paths run other operators, or wire them otherwise."""
    if old.tokens != new.tokens:
        start = 0
        while start < min(len(old.tokens), len(new.tokens)) and old.tokens[start] == new.tokens[start]:
            start += 1
        matcher = SequenceMatcher(None, old.tokens[start:], new.tokens[start:], autojunk=False)
        found = []
        codes = matcher.get_opcodes()
        for k, (tag, i1, i2, j1, j2) in enumerate(codes):
            if tag == "equal":
                continue
            i1, i2, j1, j2 = i1 + start, i2 + start, j1 + start, j2 + start
            room = (start if k == 0 else 0) + (codes[k - 1][2] - codes[k - 1][1] if k else 0)
            rest = codes[k + 1][2] - codes[k + 1][1] if k + 1 < len(codes) else 0
            before, after = new.widen(j1, j2) if j1 < j2 else old.widen(i1, i2)
            more = ["…, " if before > NEAR else "", ", …" if after > NEAR else ""]
            before, after = min(before, room, NEAR), min(after, rest, NEAR)
            i1, i2, j1, j2 = i1 - before, i2 + after, j1 - before, j2 + after
            at = new.nodes[j1].source if j1 < j2 else old.nodes[i1].source
            plain = old.show(i1, i2, False), new.show(j1, j2, False)
            was, now = plain if plain[0] != plain[1] else (old.show(i1, i2, True), new.show(j1, j2, True))
            found.append(f"{at or 'somewhere'}: " + " → ".join(f"{more[0]}{side}{more[1]}" for side in (was, now)))
        return found
    found = []
    for k, node in enumerate(new.nodes):
        where = node.source or "somewhere"
        if old.wires[k] != new.wires[k]:
            found.append(f"{where}: {node.op} reads other values")
        elif old.dtypes(k) != new.dtypes(k):
            found.append(f"{where}: {node.op} gives {some(new.dtypes(k))} instead of {some(old.dtypes(k))}")
    return found


def paths(old: Recorded, new: Recorded, drift: Drift) -> None:
    """Compares what the batches ran, path by path; equal ones are matched first."""
    leaves = old.leaves() | new.leaves()
    was, now = [Line(p, leaves) for p in old.paths()], [Line(p, leaves) for p in new.paths()]
    pairs: List[Tuple[Line, Line]] = []
    for line in list(was):
        same = next((n for n in now if n.tokens == line.tokens and n.wires == line.wires), None)
        if same:
            pairs.append((line, same))
            was.remove(line)
            now.remove(same)
    pairs += list(zip(was, now))
    lines = list(dict.fromkeys(text for a, b in pairs for text in operators(a, b)))
    drift.changes += lines[:3 * SHOWN] + ([f"and {len(lines) - 3 * SHOWN} more places"] if len(lines) > 3 * SHOWN else [])
    for kind, left in (("no batch takes it any more", was[len(now):]), ("a path that is new", now[len(was):])):
        for line in left:
            drift.changes.append(f"path of {line.path.label or 'all batches'}: {kind}; {plural(len(line.nodes), 'operator')}, "
                                 f"from {next((n.source for n in line.nodes if n.source), 'somewhere')} on")
    moved = {(a.nodes[k].source, b.nodes[k].source): None for a, b in pairs if a.tokens == b.tokens
             for k in range(len(a.nodes)) if a.nodes[k].source != b.nodes[k].source}
    if moved:
        drift.notes.append("lines moved: " + some([f"{m[0] or 'none'} → {m[1] or 'none'}" for m in moved], 3))
    if any(a.dtypes(k) == b.dtypes(k) and a.shapes(k) != b.shapes(k)
           for a, b in pairs if a.tokens == b.tokens for k in range(len(a.nodes))):
        drift.notes.append("sizes of activations differ")


# ---- the whole ------------------------------------------------------------------------------------------------------


def compare(old: Recorded, text: str) -> Drift:
    """Compares a recording read from a file with the text of a new one."""
    drift = Drift()
    if old.text == text:
        return drift
    new = parse(text)
    try:
        before = command.check(old.text)
    except Error as error:
        raise Error(f"the recording to compare with is broken: {error}\nhelp: write it again with -o", 2) from None
    after = command.check(text)
    drift.changes += tensors(before, after, old.ties(), new.ties())
    drift.changes += classes(before, after)
    variants = {key[len(BRANCH):] for key in (*old.metadata, *new.metadata) if key.startswith(BRANCH)}
    for what, a, b in (("input", old.graph.inputs, new.graph.inputs), ("output", old.graph.outputs, new.graph.outputs)):
        drift.changes += [f"{what} {n}: removed" for n in a if n not in b and n not in variants]
        drift.changes += [f"{what} {n}: added" for n in b if n not in a and n not in variants]
    if old.metadata.get("ddpc.module") != new.metadata.get("ddpc.module"):
        drift.changes.append(f"the module is {new.metadata.get('ddpc.module', 'model')} instead of "
                             f"{old.metadata.get('ddpc.module', 'model')}")
    paths(old, new, drift)
    seen = [r.metadata.get("ddpc.evidence", "unknown").rpartition("observed, ")[2] for r in (old, new)]
    if seen[0] != seen[1]:
        drift.notes.append(f"observed {seen[1]} instead of {seen[0]}")
    if old.version != new.version:
        drift.notes.append(f"recorded with torch {old.version}, now with {new.version}")
    missed = [set(r.metadata.get("ddpc.not_taken", "").split("\n")) - {""} for r in (old, new)]
    if not any("lines moved" in n for n in drift.notes):
        drift.notes += [f"now taken: {b}" for b in sorted(missed[0] - missed[1])[:SHOWN]]
        drift.notes += [f"no longer taken: {b}" for b in sorted(missed[1] - missed[0])[:SHOWN]]
    if not drift.changes and not drift.notes:
        drift.notes.append("the text differs in layout or names only")
    return drift
