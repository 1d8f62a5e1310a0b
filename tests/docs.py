#!/usr/bin/env python3
"""The manual pages have every command and every flag that the programs have, and no others; and every document that
the tree refers to exists, as does every source file that a document names; and documents fit into 125 columns.

usage: docs.py SOURCE-TREE
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
wrong = []


def compare(page, kind, shown, files, known_as, besides=()):
    known = set(re.findall(known_as, "".join(f.read_text() for f in sorted(root.glob(files))), re.MULTILINE))
    assert len(known) > 5, f"{files} cannot be read like this any more"
    known |= set(besides)
    wrong.extend(f"{page} lacks the {kind} {name}" for name in sorted(known - shown))
    wrong.extend(f"{page} has the {kind} {name}, {files} does not" for name in sorted(shown - known))


def flags(page):
    """Those that have an item of their own; that the synopsis mentions one is not enough."""
    items = re.findall(r"^\.It Fl.*", (root / page).read_text(), re.MULTILINE)
    return {name for item in items for name in re.findall(r"\bFl -([a-z][a-z-]+)", item)}


def commands(page):
    part = (root / page).read_text().split("\nThe commands:\n")[1].split("\n.El\n")[0]
    return set(re.findall(r"^\.It Cm ([a-z]+)", part, re.MULTILINE))


page = "docs/man/ddpc.1"
compare(page, "flag", flags(page), "compiler/tool/flags.def", r'^FLAG\([A-Z_| ]+, "([a-z-]+)"', ("help", "version"))
compare(page, "command", commands(page), "compiler/tool/commands.def", r"^COMMAND\(([a-z_]+),")
page = "docs/man/ddprun.1"
compare(page, "flag", flags(page), "runtime/ddprun*.c", r'^\s*"  (?:-[a-z], )?--([a-z-]+)')
for path in sorted(root.rglob("*")):
    if path.suffix in (".c", ".h", ".def", ".md", ".txt") and not path.relative_to(root).parts[0].startswith("build"):
        for name in set(re.findall(r"docs/[a-z-]+\.md", path.read_text(errors="replace"))):
            if not (root / name).exists():
                wrong.append(f"{path.relative_to(root)} refers to {name}, which is not there")
sources = {p.name for folder in ("ir", "compiler", "runtime", "samples", "tests", "python") for p in (root / folder).rglob("*")}
for path in sorted([root / "README.md", *(root / "docs").glob("*.md")]):
    for name in set(re.findall(r"`[a-z/]*?([a-z_]+\.(?:c|h|def|ir|py))`", path.read_text())):
        if name not in sources:
            wrong.append(f"{path.relative_to(root)} refers to {name}, which is not there")
for path in [*root.glob("*.md"), *(root / "docs").glob("*.md"), *root.glob("samples/*.md"), *root.glob("tests/*/*.md")]:
    session = False  # what programs print is as long as they print it
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("```"):
            session = line.startswith("```console")
        elif len(line) > 125 and not session:
            wrong.append(f"{path.relative_to(root)}:{number} has {len(line)} columns, 125 at most")
print("\n".join(wrong) or "the manual page is complete, and every document is there")
sys.exit(bool(wrong))
