"""What a check says about the parameters of a module, name by name.

A check comes in four forms: the dict of `ddpc check --format=json`, a file that holds it, a model (its text, or the path
of its file), and a plan. All give, for each step, a class to each parameter. Here they become a list for each step in the
order of the module's parameters, after names were matched: wrappers' prefixes count on neither side, nor which of a tied
parameter's names is used. A parameter that only one side has, or that has another shape there, is an error: such a check
is of another module.
"""

from __future__ import annotations

import difflib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Union

from torch import nn

from .. import Error, command
from .module import Parameters, parameters_of, strip, unwrap

Model = Union[Mapping[str, Any], str, "os.PathLike[str]"]

PLAN_MAGIC = b"\x89DDP"


@dataclass(frozen=True)
class Row:
    """What the check says about one parameter in one step."""

    kind: str  #: always, conditional, never, frozen
    reason: str  #: in words, with the line where it is known; "" if the check has none
    elsewhere: bool = False  #: frozen in this step, trained in another

    @property
    def text(self) -> str:
        return f"{self.kind}: {self.reason}" if self.reason else self.kind


@dataclass
class Expectation:
    """What a check says about the parameters of one module."""

    names: List[str]  #: as in the module, without wrappers' prefixes, in its order
    parameters: List[nn.Parameter]  #: in the order of `names`
    steps: Dict[str, List[Row]]  #: a row for each parameter


def load(model: Model) -> Dict[str, Any]:
    """The dict of a check or a plan, whatever form it is given in."""
    if isinstance(model, Mapping):
        return dict(model)
    if command.is_text(model):
        return command.check(model)
    try:
        with open(model, "rb") as file:
            start = file.read(64)
        if start.startswith(PLAN_MAGIC):
            return json.loads(command.ask(["dump", model, "--format=json"]))
        if start.lstrip().startswith(b"{"):
            return json.loads(Path(model).read_text(encoding="utf-8"))
    except OSError as error:
        raise Error(f"{os.fspath(model)} cannot be read: {error.strerror}", 2) from error
    except ValueError as error:
        raise Error(f"{os.fspath(model)} is not the JSON of a check: {error}", 2) from error
    return command.check(model)


def steps_of(check: Mapping[str, Any]) -> Dict[str, List[Dict[str, Any]]]:
    """The parameters, without buffers, of each step of a check or a plan."""
    try:
        return {s["name"]: [p for p in s["parameters"] if p.get("kind", "parameter") == "parameter"]
                for s in check["steps"]}
    except (KeyError, TypeError):
        raise Error("this is not the dict of `ddpc check --format=json`, nor of `ddpc dump`: "
                    "it has no steps with parameters", 2) from None


def reason_of(entry: Mapping[str, Any]) -> str:
    reason = entry.get("reason") or ""
    guard = entry.get("guard")
    if not reason and guard:
        reason = f"only when {guard['text']}"
    source = entry.get("source")
    where = f"{source['file']}:{source['line']}" if source else ""
    return f"{reason} ({where})".strip() if where and where not in reason else reason


def together(rows: Iterable[Row]) -> Row:
    """One row for several steps: a class only where it is the same in all."""
    rows = list(rows)
    if len({r.kind for r in rows}) == 1:
        return Row(rows[0].kind, rows[0].reason)
    return Row("conditional", "in some steps " + ", in others ".join(dict.fromkeys(r.kind for r in rows)))


def plain(name: str) -> str:
    return strip(name).replace("._orig_mod.", ".")


def complain(module: nn.Module, unknown: List[str], absent: List[str], prefix: str) -> None:
    """Raises: `unknown` are the module's names that the check does not know, `absent` the reverse."""
    buffers = {plain(n) for n, _ in module.named_buffers()}
    lines = ["the check is not of this module"]

    def name_them(title: str, names: List[str], others: List[str]) -> None:
        if not names:
            return
        lines.append(f"  {title}:")
        for name in names[:10]:
            near = difflib.get_close_matches(name, others, 1)
            why = (" (a buffer of the module)" if plain(name) in buffers else
                   f" (near: {near[0]})" if near else "")
            lines.append(f"    {name}{why}")
        if len(names) > 10:
            lines.append(f"    and {len(names) - 10} more")

    name_them("parameters that the check does not know", unknown, absent)
    name_them("parameters that the module does not have", absent, unknown)
    parts = [a[:-len(u)] for u in unknown[:1] for a in absent if a.endswith("." + u)]
    parts = [part for part in parts if all(part + u in absent for u in unknown)]
    if parts and not prefix:
        lines.append("  if the module is a part of the model that was checked, say prefix="
                     + " or prefix=".join(f'"{part}"' for part in parts))
    else:
        lines.append("  check the module again as it is now")
    raise Error("\n".join(lines))


def expect(module: nn.Module, model: Model, prefix: str = "") -> Expectation:
    """Matches a check with a module. With a `prefix` the module is the part of the checked model that it names."""
    check = load(model)
    steps = steps_of(check)
    if not steps:
        raise Error("the check has no step", 2)
    owned: Parameters = parameters_of(unwrap(module))
    shapes = {p["name"]: p["shape"] for p in check.get("parameters", ())}
    index = {plain(n): i for i, n in enumerate(owned.parameters)}
    index.update({plain(alias): index[plain(first)] for alias, first in owned.ties.items()})
    names, parameters = [plain(n) for n in owned.parameters], list(owned.parameters.values())

    table: Dict[str, Dict[int, Row]] = {}
    absent: Dict[str, None] = {}
    for step, entries in steps.items():
        rows: Dict[int, Row] = {}
        for entry in entries:
            name = entry["name"]
            if not name.startswith(prefix):
                continue
            i = index.get(plain(name[len(prefix):]))
            if i is None:
                absent[name] = None
                continue
            shape = entry.get("shape", shapes.get(name))
            if shape is not None and list(parameters[i].shape) != list(shape):
                raise Error(f"parameter {names[i]} has shape {list(parameters[i].shape)} in the module and {shape} in "
                            "the check; check the module again as it is now")
            rows[i] = Row(entry["class"], reason_of(entry))
        table[step] = rows
    unknown = [n for i, n in enumerate(names) if any(i not in rows for rows in table.values())]
    if unknown or absent:
        complain(unwrap(module), unknown, list(absent), prefix)

    trained = {i for rows in table.values() for i, r in rows.items() if r.kind in ("always", "conditional")}
    return Expectation(names, parameters, {
        step: [Row(r.kind, r.reason, r.kind == "frozen" and i in trained) for i, r in sorted(rows.items())]
        for step, rows in table.items()})
