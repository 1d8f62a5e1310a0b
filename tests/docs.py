#!/usr/bin/env python3
"""The manual page of ddpc has every command and every flag of the tables, and no others.

usage: docs.py SOURCE-TREE
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
page = (root / "docs/man/ddpc.1").read_text()
tool = root / "compiler/tool"
wrong = []
for kind, pattern, table, record in (
    ("flag", r"\bFl -([a-z][a-z-]+)", "flags.def", r'^FLAG\([A-Z_| ]+, "([a-z-]+)"'),
    ("command", r"^(?:\.It |\.Op )?\.?Cm ([a-z-]+)", "commands.def", r"^COMMAND\(([a-z_]+),"),
):
    shown = set(re.findall(pattern, page, re.MULTILINE))
    known = set(re.findall(record, (tool / table).read_text(), re.MULTILINE))
    assert len(known) > 5, f"{table} cannot be read like this any more"
    wrong += [f"docs/man/ddpc.1 lacks the {kind} {name}" for name in sorted(known - shown)]
    wrong += [f"docs/man/ddpc.1 has the {kind} {name}, {table} does not" for name in sorted(shown - known)]
print("\n".join(wrong) or "the manual page is complete")
sys.exit(bool(wrong))
