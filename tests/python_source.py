#!/usr/bin/env python3
"""The Python package's source keeps to Python 3.9, the oldest that it runs on, wherever it is tested: its grammar, and
no `X | Y` or match statement that only newer ones evaluate. Each module says what it is for, and pyflakes, where it is
installed, finds nothing in it but what `# noqa: F…` excuses.

usage: python_source.py FOLDER
"""
import ast
import pathlib
import re
import subprocess
import sys

OLDEST = (3, 9)


def annotations(tree):
    """What Python evaluates while it defines functions, classes and module variables."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.returns
        elif isinstance(node, (ast.arg, ast.AnnAssign)):
            yield node.annotation


def problems(file):
    try:
        tree = ast.parse(file.read_text(), str(file), feature_version=OLDEST)
    except SyntaxError as error:
        yield error.lineno, error.msg
        return
    if not ast.get_docstring(tree):
        yield 1, "the module has no docstring"
    lazy = any(isinstance(n, ast.ImportFrom) and n.module == "__future__" and n.names[0].name == "annotations"
               for n in tree.body)
    for annotation in () if lazy else annotations(tree):
        for node in ast.walk(annotation) if annotation else ():
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
                yield node.lineno, "X | Y in an annotation is Python 3.10's: begin with `from __future__ import annotations`"
                break


files = sorted(pathlib.Path(sys.argv[1]).rglob("*.py"))
found = [f"{file}:{line}: {text}" for file in files for line, text in problems(file)]
checker = subprocess.run([sys.executable, "-m", "pyflakes", *map(str, files)], capture_output=True, text=True)
if "No module named" not in checker.stderr:
    for line in (checker.stdout + checker.stderr).splitlines():
        place = re.match(r"(.+?\.py):(\d+):", line)
        if not place or "# noqa: F" not in open(place[1]).readlines()[int(place[2]) - 1]:
            found.append(line)
print("\n".join(found) or f"{len(files)} files are Python {OLDEST[0]}.{OLDEST[1]}'s")
sys.exit(bool(found) or not files)
