"""The `ddpc` command: where it is, and how a program runs it.

It is looked for in three places: the file that the environment variable DDPC names, next to this package
(ddpc/bin/ddpc, where an installed package carries it), and PATH. What the command says on standard error becomes the
text of a `ddpc.Error`, so that whoever reads a traceback reads the diagnostic.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Dict, Optional, Sequence, Union

from . import Error, __path__

Model = Union[str, "os.PathLike[str]"]


def carried(name: str) -> Optional[str]:
    """The path of a command of an installed package, `ddpc` or `ddprun`; None in a tree, which has none.

    An editable installation has two folders: the tree's, and one with the commands.
    """
    return next(filter(None, (shutil.which(str(Path(folder) / "bin" / name)) for folder in __path__)), None)


def find() -> str:
    """The path of the `ddpc` command."""
    named = os.environ.get("DDPC")
    if named:
        found = shutil.which(named)
        if not found:
            raise Error(f"DDPC is {named!r}, which is not a program; unset it, or let it name the `ddpc` command")
        return found
    found = carried("ddpc") or shutil.which("ddpc")
    if found:
        return found
    raise Error(
        "there is no `ddpc` command next to the package, nor on PATH; "
        "build it (README.md) and let the environment variable DDPC name it"
    )


def run(args: Sequence[Model], text: Optional[str] = None) -> "subprocess.CompletedProcess[str]":
    """Runs `ddpc ARGS` with `text` as its standard input; returns what it wrote and its exit status, whatever it is."""
    command = [find(), *map(os.fspath, args)]
    try:
        return subprocess.run(command, input=text or "", capture_output=True, encoding="utf-8", errors="replace")
    except OSError as error:
        raise Error(f"{command[0]} cannot be run: {error.strerror}") from error


def ask(args: Sequence[Model], text: Optional[str] = None) -> str:
    """Standard output of `ddpc ARGS`; a failure is an Error with the tool's text."""
    done = run(args, text)
    if done.returncode:
        said = done.stderr.strip() or f"{' '.join(map(str, done.args))} ended with status {done.returncode}"
        raise Error(said, done.returncode)
    return done.stdout


def is_text(model: Model) -> bool:
    """A model is given as its text, a str of more than one line, or as the path of a file."""
    return isinstance(model, str) and "\n" in model


def check(model: Model, *flags: str) -> Dict[str, Any]:
    """The dict of `ddpc check --format=json` (docs/json.md lists its keys) of a model's text, or of the file at a path.

    `flags` are those of the command, and the model comes after them: `check(text, "--loss", "loss")`,
    `check(lines, "--from-list")`. What `--deny` finds is no error here; it is in the dict, under "denied". A policy of the
    current folder is not asked, unless a flag names it.
    """
    text = model if is_text(model) else None
    done = run(["check", "--format=json", "--policy=none", *flags, "-" if text else model], text)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        said = done.stderr.strip() or f"`ddpc check` ended with status {done.returncode}"
        raise Error(said, done.returncode) from None
    return answer
