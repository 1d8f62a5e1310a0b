"""python -m ddpc.export: a PyTorch module's training step as a text for the `ddpc` command.

    python -m ddpc.export pkg.mod:build --batch pkg.mod:batches --loss pkg.mod:loss -o model.ir
    python -m ddpc.export pkg.mod:build --batch pkg.mod:batches --loss pkg.mod:loss --verify model.ir

The first records the module with its batches, compares the recording with autograd, and writes it. The second writes
nothing: it records again and compares with the file, so that CI notices a text that no longer is the model's. Exit
status: 0; 1 for drift, or a module that is rejected; 2 for usage; 3 for an internal error.
"""

import argparse
import os
import sys
import tempfile
from typing import Optional, Sequence

from . import Error

PROGRAM = "ddpc.export"


def write(path: str, text: str) -> None:
    """Writes a file as a whole or not at all; behind a symbolic link, the file that it names. "-" is standard output."""
    if path == "-":
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python writes at its end
            raise Error(f"cannot write standard output: {error.strerror}", 2) from None
        return
    path = os.path.realpath(path)
    try:
        handle, temporary = tempfile.mkstemp(prefix=os.path.basename(path) + ".", dir=os.path.dirname(path))
    except OSError as error:
        raise Error(f"cannot write {path}: {error.strerror}", 2) from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as f:
            f.write(text)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException as error:
        os.unlink(temporary)
        if isinstance(error, OSError):
            raise Error(f"cannot write {path}: {error.strerror}", 2) from None
        raise


def verify(path: str, text: str, spec: str) -> int:
    """Compares a file with a new recording; says what differs. 1 if something does that matters."""
    from .torch import drift

    found = drift.compare(drift.read(path), text)
    lines = [*found.changes, *(f"note: {line}" for line in found.notes)]
    if found.changes:
        n = len(found.changes)
        lines.append(f"{path} is no longer what {spec} is: {n} difference{'s' if n > 1 else ''}; review them and write it "
                     "again with -o")
    else:
        lines.append(f"{path} is what {spec} is" + ("; write it again to refresh it" if found.notes else ""))
    write("-", "\n".join(lines) + "\n")
    return 1 if found.changes else 0


def need_torch(program: str) -> None:
    """Ends the program with a message where this Python has no PyTorch."""
    try:
        from . import torch  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        print(f"{program}: error: {error}", file=sys.stderr)
        sys.exit(2)


def main(argv: Optional[Sequence[str]] = None) -> int:
    need_torch(PROGRAM)
    from .torch import given

    parser = argparse.ArgumentParser(PROGRAM, description=(__doc__ or "").partition("\n\n")[0].partition(": ")[2],
                                     allow_abbrev=False)
    given.add_arguments(parser)
    target = parser.add_mutually_exclusive_group()
    target.add_argument("-o", "--output", metavar="FILE", default="-", help="where to write; - is standard output")
    target.add_argument("--verify", metavar="FILE", help="compare with this file instead, and write nothing")
    with given.failures(PROGRAM) as todo:
        args = parser.parse_args(argv)
        if args.verify is not None:
            from .torch import drift

            drift.read(args.verify)  # before the work
        else:
            given.writable(args.output)
        given.prepare(args, todo)
        recorded = given.record(todo, PROGRAM)
        if args.verify is not None:
            return verify(args.verify, recorded.text, args.module)
        write(args.output, recorded.text)
        print(f"{PROGRAM}: {recorded.agreement()}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
