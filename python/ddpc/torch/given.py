"""What a command line names: a module, batches, losses, all in the user's own code.

    pkg.mod:build           an attribute of a Python module; the current folder is on sys.path
    path/to/model.py:build  the same, of a file

A name that does not exist is an error that suggests near ones. Code of the user that raises is shown from its own frame
on: what called it is not the point.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import importlib.machinery
import importlib.util
import inspect
import os
import pkgutil
import random
import re
import sys
import traceback
from collections.abc import Iterable as AnyIterable, Mapping as AnyMapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

import torch
from torch import Tensor, nn

from .. import Error
from . import api, source

USAGE, REJECTED, INTERNAL = 2, 1, 3
PASSES = ("__torch_function__", "apply", "_function", "_checkpoint")  # of the recorder, around the user's calls


def near(name: str, names: Iterable[str]) -> str:
    """"; did you mean a, b?", or ""."""
    found = difflib.get_close_matches(name, sorted(set(names)), 3, 0.6)
    return f"; did you mean {' or '.join(found)}?" if found else ""


def siblings(name: str) -> List[str]:
    """Names of Python modules next to one that does not exist."""
    parent = name.rpartition(".")[0]
    try:
        path = list(importlib.import_module(parent).__path__) if parent else [os.getcwd()]
    except (ImportError, AttributeError):
        return []
    return [f"{parent}.{m.name}" if parent else m.name for m in pkgutil.iter_modules(path)]


def file_module(path: str) -> ModuleType:
    """Imports a file under its name and package; where that name means something else, or is none, under its path."""
    path = os.path.abspath(path)
    folder, name = os.path.split(path)
    name = name[: -len(".py")] if name.endswith(".py") else name
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        name = f"{package}.{name}"
    if folder not in sys.path:
        sys.path.insert(0, folder)
    named = all(part.isidentifier() for part in name.split("."))
    try:
        spec = importlib.util.find_spec(name) if named else None
    except ModuleNotFoundError as error:  # of a parent; the file's own are another matter
        if not name.startswith(f"{error.name}."):
            raise
        spec = None
    except ValueError:  # __main__ has none
        spec = None
    if spec and spec.origin and os.path.exists(spec.origin) and os.path.samefile(spec.origin, path):
        return importlib.import_module(name)
    name = re.sub(r"\W", "_", path)
    if name not in sys.modules:
        spec = importlib.util.spec_from_loader(name, importlib.machinery.SourceFileLoader(name, path))
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def python_module(name: str) -> ModuleType:
    """Imports a Python module by name, or by the path of its file."""
    if name.endswith(".py") or os.sep in name:
        if os.path.isfile(name):
            return file_module(name)
        folder, file = os.path.split(name)
        there = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
        files = [os.path.join(folder, f) for f in there if f.endswith(".py")]
        raise Error(f"there is no file {name}" + near(os.path.join(folder, file), files), USAGE)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing and (name == missing or name.startswith(missing + ".")):
            raise Error(f"there is no Python module {missing}" + near(missing, siblings(missing))
                        + f"\nhelp: it is looked for in {os.getcwd()} and on sys.path; a file goes as path/to/file.py:NAME",
                        USAGE) from None
        raise


def load(spec: str, flag: str) -> Any:
    """The object that "pkg.mod:name" or "file.py:name" names."""
    module, colon, path = spec.rpartition(":")
    if not colon or not module or not path:
        raise Error(f"{flag} is {spec!r}; it must be MODULE:NAME, such as pkg.mod:build or path/to/model.py:build", USAGE)
    at: Any = python_module(module)
    for part in path.split("."):
        if not hasattr(at, part):
            has = [n for n in dir(at) if not n.startswith("_")]
            where = f"{spec[: len(module)]} has" if isinstance(at, ModuleType) else f"{spec} names nothing: there is"
            own = [n for n in has if getattr(getattr(at, n), "__module__", None) == getattr(at, "__name__", "")]
            hint = near(part, has) or (f"; it defines {', '.join(own[:8])}" if own else "")
            raise Error(f"{where} no {part}" + hint, USAGE)
        at = getattr(at, part)
    return at


def call(thing: Callable[[], Any], spec: str) -> Any:
    """Calls what the user named, without arguments."""
    try:
        inspect.signature(thing).bind()
    except TypeError:
        raise Error(f"{spec} takes arguments {inspect.signature(thing)}, but it is called without any"
                    "\nhelp: write a function that takes none and calls it", USAGE) from None
    except ValueError:
        pass  # builtins without a signature
    return thing()


def seed(number: int) -> None:
    """Makes what follows repeatable."""
    random.seed(number)
    torch.manual_seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number % 2**32)


def module_of(spec: str, number: int) -> nn.Module:
    seed(number)
    thing = load(spec, "the module")
    seed(number)  # again: importing may have imported numpy, or drawn
    if not isinstance(thing, nn.Module) and callable(thing):
        thing = call(thing, spec)
    if not isinstance(thing, nn.Module):
        raise Error(f"{spec} gives a {type(thing).__name__}, not a torch.nn.Module"
                    "\nhelp: name a function that returns the module, the module itself, or its class", USAGE)
    return thing


def batches_of(spec: str, flag: str) -> Iterable[Any]:
    """An iterable of batches: what the user named, or what calling it returns."""
    thing = load(spec, flag)
    if callable(thing) and not isinstance(thing, (AnyIterable, Tensor)):
        thing = call(thing, spec)
    if isinstance(thing, (Tensor, AnyMapping)):  # one batch alone
        return [thing]
    if not isinstance(thing, AnyIterable):
        raise Error(f"{spec} gives a {type(thing).__name__}, which cannot be iterated"
                    "\nhelp: name a list of batches, a DataLoader, or a function that returns or yields them", USAGE)
    return thing


@dataclass
class Given:
    """What to record, from the command line's names; `at` is what is being done, for messages."""

    module: Optional[nn.Module] = None
    batches: Optional[Iterable[Any]] = None
    loss: Optional[Callable[..., Tensor]] = None
    steps: Optional[Dict[str, Tuple[Iterable[Any], Optional[Callable[..., Tensor]]]]] = None
    via: str = "record"
    at: str = ""
    notes: List[str] = field(default_factory=list)

    def counted(self, batches: Iterable[Any], most: int, step: str = "") -> Iterator[Any]:
        """The batches, up to `most`, while `at` tells where we are."""
        of = f" of step {step}" if step else ""
        iterator = iter(batches)
        for n in range(1, most + 1):
            self.at = f"making batch {n}{of}"
            try:
                batch = next(iterator)
            except StopIteration:
                return
            self.at = f"batch {n}{of}"
            yield batch
        self.notes.append(f"recorded {most} batches{of} and stopped; --max-batches=N takes more")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `ddpc.check` and `ddpc.export` both take."""
    add = parser.add_argument
    add("module", metavar="MODULE:NAME", help="a function that returns the module, the module, or its class")
    add("--batch", metavar="MODULE:NAME", help="batches: an iterable or a function that returns one; a batch is a tuple of "
        "arguments, a dict of keywords, or a tensor")
    add("--loss", metavar="MODULE:NAME", help="loss(output, *batch) -> scalar tensor; without it the module returns the loss, "
        "or something with a `loss`")
    add("--step", metavar="STEP=LOSS[,BATCH]", action="append", default=[], help="a step with a loss of its own, as "
        "d=pkg.mod:d_loss, and perhaps batches of its own; give it once per step")
    add("--seed", type=int, default=0, metavar="N", help="of random, numpy and torch, before the module is built (0)")
    add("--max-batches", type=int, default=64, metavar="N", help="of a step; the rest is not recorded (64)")
    add("--via", choices=("record", "export"), default="record", help="record the calls, or run what torch.export made "
        "of the module (torch 2.6 or newer)")


@contextmanager
def users_code(what: Given) -> Iterator[None]:
    """Around code of the user: standard output is the report's, the arguments are ours, and the end is not its to call."""
    ours, sys.argv = sys.argv, sys.argv[:1]
    try:
        with redirect_stdout(sys.stderr):
            yield
    except SystemExit as error:
        raise Error(f"{what.at + ': ' if what.at else ''}your code ends the program: sys.exit({error.code!r})\n"
                    'help: what a script does when it is run stands under `if __name__ == "__main__":`', REJECTED) from None
    finally:
        sys.argv = ours


def prepare(args: argparse.Namespace, found: Given) -> None:
    """Loads and builds what the command line names."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    if args.max_batches < 1:
        raise Error("--max-batches must be at least 1", USAGE)
    if args.step and args.loss:
        raise Error("--loss and --step exclude each other: every step names its own loss", USAGE)
    steps: Dict[str, Tuple[str, str]] = {}
    for text in args.step:
        name, equals, rest = text.partition("=")
        loss, _, own = rest.partition(",")
        if not equals or not name or not loss:
            raise Error(f"--step is {text!r}; it must be STEP=LOSS or STEP=LOSS,BATCH, such as d=pkg.mod:d_loss", USAGE)
        if name in steps:
            raise Error(f"--step {name} is given twice", USAGE)
        steps[name] = (loss, own or args.batch)
    if not args.batch and (not steps or any(not b for _, b in steps.values())):
        raise Error("there is no batch: --batch MODULE:NAME names what the module is recorded with", USAGE)
    found.via = args.via
    with users_code(found):
        build(args, steps, found)


def build(args: argparse.Namespace, steps: Dict[str, Tuple[str, str]], found: Given) -> None:
    """Runs the user's code that makes module, losses and batches."""
    found.at = f"building {args.module}"
    found.module = module_of(args.module, args.seed)
    found.at = ""
    if not steps:
        found.loss = loss_of(args.loss, "--loss") if args.loss else None
        found.batches = found.counted(batches_of(args.batch, "--batch"), args.max_batches)
        return
    shared: Dict[str, List[Any]] = {}
    found.steps = {}
    for name, (loss, batch) in steps.items():
        if batch not in shared:
            shared[batch] = list(found.counted(batches_of(batch, "--batch"), args.max_batches, name))
        found.steps[name] = (found.counted(shared[batch], len(shared[batch]) + 1, name), loss_of(loss, "--step"))


def loss_of(spec: str, flag: str) -> Callable[..., Tensor]:
    thing = load(spec, flag)
    if isinstance(thing, type):
        thing = call(thing, spec)  # torch.nn:MSELoss
    if not callable(thing):
        raise Error(f"{flag} {spec} is a {type(thing).__name__}, not a function loss(output, *batch)", USAGE)
    return thing


def writable(path: str) -> None:
    """Says before the work that a file cannot be written."""
    if not path:
        raise Error("-o names no file", USAGE)
    if path != "-" and not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise Error(f"cannot write {path}: there is no folder {os.path.dirname(path)}", USAGE)
    if path != "-" and os.path.isdir(path):
        raise Error(f"cannot write {path}: it is a folder", USAGE)


def record(what: Given, program: str) -> api.Recording:
    """Records what the command line names, and says on standard error what a reader must know."""
    assert what.module is not None
    with users_code(what):
        recorded = api.recording(what.module, what.batches, what.loss, steps=what.steps, via=what.via)
    for note in [*what.notes, *recorded.notes]:
        say(program, "note", note)
    return recorded


def users_traceback(error: BaseException) -> Optional[str]:
    """The traceback of an error of the user's code from its own first frame on; None if it is ours."""
    told = traceback.TracebackException(type(error), error, error.__traceback__)
    frames = list(told.stack)
    last = frames[-1] if frames else None
    if last and last.filename.startswith(source.DDPC) and last.name not in PASSES:
        return None
    first = next((i for i, f in enumerate(frames) if source.is_user(f.filename)), None)
    if first is None:  # a module that is all torch's own
        first = next((i for i, f in enumerate(frames) if f.filename.startswith(source.TORCH)), None)
    if first is None and not isinstance(error, SyntaxError):
        return None
    hidden = (source.DDPC, "<frozen importlib", importlib.__file__, torch.overrides.__file__)
    own = [f for f in frames[first or 0:] if not f.filename.startswith(hidden)]
    told.stack = traceback.StackSummary.from_list(own)
    return "".join(told.format(chain=False)).rstrip()


@contextmanager
def failures(program: str) -> Iterator[Given]:
    """Errors as messages and exit codes: 2 for usage, 1 for a module that is rejected, 3 for our own."""
    what = Given()
    try:
        yield what
    except Error as error:
        say(program, "error", str(error))
        sys.exit(error.code or REJECTED)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        shown = users_traceback(error)
        if shown is None:
            traceback.print_exc()
            say(program, "internal error", f"{type(error).__name__}: {error}; please report it with this traceback")
            sys.exit(INTERNAL)
        print(shown, file=sys.stderr)
        say(program, "error", f"{what.at + ': ' if what.at else ''}{type(error).__name__} in your code, see above")
        sys.exit(REJECTED)


def say(program: str, kind: str, text: str) -> None:
    sys.stdout.flush()
    print(f"{program}: {kind}: {text}", file=sys.stderr)
