#!/usr/bin/env python3
"""The manual page of ddpc has every command and every flag of the tables, and no others; and every document
that the tree refers to exists.

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
for path in sorted(root.rglob("*")):
    if path.suffix in (".c", ".h", ".def", ".md", ".txt") and not path.relative_to(root).parts[0].startswith("build"):
        for name in set(re.findall(r"docs/[a-z-]+\.md", path.read_text(errors="replace"))):
            if not (root / name).exists():
                wrong.append(f"{path.relative_to(root)} refers to {name}, which is not there")
print("\n".join(wrong) or "the manual page is complete, and every document is there")
sys.exit(bool(wrong))
