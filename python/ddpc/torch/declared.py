"""Where the user's code declares a parameter: the line to show for one that nothing reads.

It is the assignment to the attribute in the innermost class of the user's code that owns it (`self.images = …` for
encoder.images.weight), else the line of that class.
"""

from __future__ import annotations

import inspect
import os
import re
from typing import Any, Dict, Optional, Tuple

from torch import nn

from . import source
from .module import parameters_of, unwrap


def declared(module: nn.Module, name: str) -> Optional[Tuple[str, int]]:
    """File, as seen from the current folder, and line of a parameter's declaration."""
    module = unwrap(module)
    path = parameters_of(module).path
    owner: Any = module
    found = None
    for part in [*(path.split(".") if path else []), *name.split(".")]:
        found = attribute(type(owner), part) or found
        owner = getattr(owner, part, None)
    return found


def attribute(owner: type, name: str) -> Optional[Tuple[str, int]]:
    """Where a class of the user assigns an attribute; its own line if it does so in no plain way."""
    first = None
    assigns = re.compile(rf"\bself\.{name}\b[^=]*=(?!=)|['\"]{name}['\"]")
    for cls in owner.__mro__:
        try:
            file = inspect.getsourcefile(cls)
            if not file or not source.is_user(file):
                continue
            lines, start = inspect.getsourcelines(cls)
        except (OSError, TypeError):
            continue
        shown = source.short(file, os.getcwd())
        first = first or (shown, max(start, 1))
        for i, line in enumerate(lines):
            if assigns.search(line):
                return shown, start + i
    return first


def locate(sarif: Dict[str, Any], module: nn.Module) -> None:
    """Gives each result about a parameter that has no line the one where it is declared: code scanning wants a line."""
    for run in sarif["runs"]:
        for result in run["results"]:
            for location in result.get("locations", []):
                names = [n["fullyQualifiedName"] for n in location.get("logicalLocations", [])]
                at = declared(module, names[0]) if names and "physicalLocation" not in location else None
                if at:
                    location["physicalLocation"] = {
                        "artifactLocation": {"uri": at[0].replace(os.sep, "/"), "uriBaseId": "%SRCROOT%"},
                        "region": {"startLine": at[1]},
                    }
