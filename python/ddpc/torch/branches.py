"""Which branches of the user's Python code no batch took.

A recording shows the path that its batches took; a parameter that only another path uses looks as if nothing ever read
it. So the choices of the code that ran are compared with the instructions that ran:

    watched = Branches(model, loss)
    for batch in batches:
        with watched:
            loss(model(*batch), *batch)
    watched.not_taken()        # ["model.py:88 if self.pool: (true)", …]

What is kept are pairs of instructions that followed each other, from `sys.monitoring` in Python 3.12 and later, in 3.11
from the trace function, which follows each function that still has an arm to be seen. Positions (lines and columns, which
Python has since 3.11) say to which arm an instruction belongs. First come branches that can hide a gradient path: those
whose code, or whose other side, leads to a parameter.
"""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
import os
import sys
from types import CodeType, FrameType, FunctionType
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from . import arms, source
from .arms import Arm, Choice, Range

LOOPS = {"enumerate", "zip", "reversed", "list", "tuple", "iter", "getattr", "sorted", "range"}


def positions(code: CodeType) -> Dict[int, Range]:
    """Where in its file each instruction of a code object (by its offset in bytes) comes from."""
    found = enumerate(code.co_positions())
    return {2 * i: (p[0], p[2], p[1], p[3]) for i, p in found if None not in p}


def exits(code: CodeType) -> Dict[int, int]:
    """Where instructions lead that always go away: the target of a jump, -1 for a return."""
    found = {}
    for i in dis.get_instructions(code):
        if i.opname.startswith("RETURN_"):
            found[i.offset] = -1
        elif i.opname.startswith("JUMP_"):
            found[i.offset] = i.argval
    return found


def inside(at: Optional[Range], where: Range) -> bool:
    """Whether an instruction's position lies within a range of the file."""
    return at is not None and where[:2] <= at[:2] and at[2:] <= where[2:]


class Watched:
    """A code object, its choices, and which instructions followed each other in it."""

    def __init__(self, code: CodeType, choices: List[Choice], frame: FrameType):
        self.code = code
        self.arcs: Set[Tuple[Optional[int], int]] = set()  #: offsets of two instructions; -1: the function returned
        self.counted = 0  #: arcs when `open` was made
        self.positions = positions(code)
        self.exits = exits(code) if sys.version_info >= (3, 12) else {}
        lines = {p[0] for p in self.positions.values()}
        self.choices = [c for c in choices if c.test[0] in lines]
        self.open = list(self.choices)
        nn = sys.modules.get("torch.nn")
        self.modules = {n: v for n, v in frame.f_locals.items() if nn and isinstance(v, nn.Module)}

    def trace(self) -> Callable[..., Any]:
        """The trace function of one frame."""
        at: Optional[int] = None
        arcs = self.arcs

        def local(frame: FrameType, event: str, _: object) -> Any:
            nonlocal at
            if event == "opcode":
                now = frame.f_lasti
                arcs.add((at, now))
                at = now
            elif event == "exception":
                at = None
            elif event == "return":
                arcs.add((at, -1))
                if len(arcs) != self.counted:
                    self.counted = len(arcs)
                    self.open = [c for c in self.open if len(self.taken(c)) < len(c.arms)]
            return local

        return local

    def reached(self, choice: Choice) -> bool:
        return any(inside(self.positions.get(b), choice.test) for _, b in self.arcs)

    def taken(self, choice: Choice) -> List[Arm]:
        """The arms that some call took."""
        return [a for a in choice.arms if self.took(choice, a)]

    def took(self, choice: Choice, arm: Arm) -> bool:
        if arm.where:
            return any(inside(self.positions.get(b), arm.where) for _, b in self.arcs)
        others = [a.where for a in choice.arms if a.where]

        def head(at: Optional[Range]) -> bool:
            return inside(at, choice.whole) and not any(inside(at, o) for o in others)

        return any(
            head(self.positions.get(before)) and not inside(self.positions.get(after), choice.whole)
            for before, after in self.arcs if before is not None
        )


class Branches:
    """Watches the user's code while it is entered, any number of times.

    Of installed packages only files are watched that define `things` or the class of a submodule of one: modules,
    functions, Python modules, or paths. Without `things` all files are. Where nothing can be watched (a debugger or
    coverage has the trace function, or Python is older than 3.11) `note` says so.
    """

    def __init__(self, *things: Any):
        self.files = {os.path.realpath(file) for t in things for file in files_of(t)} if things else None
        self.note = ""
        self.codes: Dict[CodeType, Optional[Watched]] = {}
        self.choices: Dict[str, List[Choice]] = {}
        self.trees: Dict[str, ast.Module] = {}
        self.stop: Callable[[], None] = lambda: None

    def __enter__(self) -> "Branches":
        self.stop = lambda: None
        if sys.version_info >= (3, 12):
            self.monitor()
        elif sys.version_info < (3, 11):
            self.note = "branches that were not taken are not known: Python 3.11 is the first that tells them apart"
        elif sys.gettrace() is not None:
            self.note = "branches that were not taken are not known: a debugger or coverage traces this program"
        else:
            sys.settrace(self.call)
            self.stop = lambda: sys.settrace(None)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def monitor(self) -> None:
        """Watches by sys.monitoring, where every instruction reports once and conditional jumps each time."""
        m = sys.monitoring  # type: ignore[attr-defined]
        tool = next((i for i in (3, 4, 2) if m.get_tool(i) is None), None)
        if tool is None:
            self.note = "branches that were not taken are not known: other tools monitor this program"
            return
        m.use_tool_id(tool, "ddpc")
        events = m.events.INSTRUCTION | m.events.BRANCH

        def start(code: CodeType, _: int) -> Any:
            if code not in self.codes:
                self.codes[code] = self.watch(code, sys._getframe(1))
            if self.codes[code] is not None:
                m.set_local_events(tool, code, events)
            return m.DISABLE

        def instruction(code: CodeType, at: int) -> Any:
            watched = self.codes[code]
            watched.arcs.add((None, at))
            if at in watched.exits:
                watched.arcs.add((at, watched.exits[at]))
            return m.DISABLE

        def branch(code: CodeType, at: int, to: int) -> None:
            self.codes[code].arcs.add((at, to))

        def stop() -> None:
            m.set_events(tool, 0)
            for code, watched in self.codes.items():
                if watched is not None:
                    m.set_local_events(tool, code, 0)
            for event in (m.events.PY_START, m.events.INSTRUCTION, m.events.BRANCH):
                m.register_callback(tool, event, None)
            m.free_tool_id(tool)

        m.register_callback(tool, m.events.PY_START, start)
        m.register_callback(tool, m.events.INSTRUCTION, instruction)
        m.register_callback(tool, m.events.BRANCH, branch)
        m.set_events(tool, m.events.PY_START)
        m.restart_events()
        self.stop = stop

    def call(self, frame: FrameType, event: str, _: object) -> Any:
        """The trace function of Python 3.11: whether to follow a frame."""
        code = frame.f_code
        try:
            watched = self.codes[code]
        except KeyError:
            watched = self.codes[code] = self.watch(code, frame)
        if watched is None or not watched.open:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return watched.trace()

    def watch(self, code: CodeType, frame: FrameType) -> Optional[Watched]:
        file = code.co_filename
        if not source.is_user(file):
            return None
        if self.files is not None and source.installed(os.path.realpath(file)) and os.path.realpath(file) not in self.files:
            return None
        watched = Watched(code, self.read(file), frame)
        return watched if watched.choices else None

    def read(self, file: str) -> List[Choice]:
        """The choices of a file; none if it cannot be read."""
        if file not in self.choices:
            try:
                self.trees[file], self.choices[file] = arms.choices("".join(linecache.getlines(file)))
            except (SyntaxError, ValueError, RecursionError):
                self.choices[file] = []
        return self.choices[file]

    def not_taken(self) -> List[str]:
        """The arms that no call took, of choices that some call reached: those that can hide a gradient path first."""
        watched: Dict[int, List[Watched]] = {}
        chosen: Dict[int, Choice] = {}
        for w in filter(None, self.codes.values()):
            for c in w.choices:
                chosen[id(c)] = c
                watched.setdefault(id(c), []).append(w)
        found: List[Tuple[int, str, int, int, str]] = []
        for key, choice in chosen.items():
            by = watched[key]
            if not any(w.reached(choice) for w in by):
                continue
            missed = [a for a in choice.arms if not any(w.took(choice, a) for w in by)]
            if not missed or all(a.nodes and all(map(arms.idle, a.nodes)) for a in missed):
                continue
            leads = any(Leads(self, w, choice).to_parameter() for w in by)
            if choice.optional and not leads:
                continue
            leaves = any(isinstance(n, (ast.Return, ast.Break, ast.Continue)) for a in choice.arms for n in a.nodes)
            file = by[0].code.co_filename
            for a in missed:
                if not (a.nodes and all(map(arms.idle, a.nodes))):
                    text = f"{source.place(file, choice.line)} {choice.text} ({a.label})"
                    found.append((0 if leads else 1 if leaves else 2, file, choice.line, choice.test[1], text))
        return list(dict.fromkeys(text for *_, text in sorted(found)))


class Leads:
    """Whether the code on either side of a choice leads to a parameter, as far as names tell."""

    def __init__(self, branches: Branches, watched: Watched, choice: Choice):
        self.branches, self.watched, self.choice = branches, watched, choice
        self.seen: Set[CodeType] = set()
        self.nn = sys.modules.get("torch.nn")

    def to_parameter(self) -> bool:
        if self.nn is None:
            return False
        nodes = [n for a in self.choice.arms for n in a.nodes]
        return self.mention(nodes, self.watched.modules, self.choice.function) or any(map(cuts, nodes))

    def mention(self, nodes: Sequence[ast.AST], modules: Dict[str, Any], function: Optional[ast.AST]) -> bool:
        """Whether code mentions a parameter of the modules that names stand for."""
        derived = self.derived(function, modules) if function is not None else set()
        for name, parts in arms.names(nodes):
            if name in derived or (name in modules and self.resolve(modules[name], parts)):
                return True
        return False

    def derived(self, function: ast.AST, modules: Dict[str, Any]) -> Set[str]:
        """Local names of a function that stand for modules or parameters: loop variables and plain assignments."""
        found: Set[str] = set()
        for node in ast.walk(function):
            if isinstance(node, (ast.For, ast.comprehension)):
                value, targets = node.iter, [node.target]
            elif isinstance(node, ast.Assign):
                value, targets = node.value, node.targets
            else:
                continue
            calls = [arms.called(n) for n in ast.walk(value) if isinstance(n, ast.Call)]
            if all(c in LOOPS for c in calls) and any(
                n in modules and self.resolve(modules[n], parts) for n, parts in arms.names([value])
            ):
                found.update(n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))
        return found

    def resolve(self, at: Any, parts: List[str]) -> bool:
        """Whether `at.a.b.c` is, has, or is a method that uses a parameter."""
        for i, part in enumerate(parts):
            if isinstance(at, self.nn.Module):
                for table in (at._modules, at._parameters):
                    if part in table:
                        at = table[part]
                        break
                else:
                    if part in at.__dict__:
                        at = at.__dict__[part]
                    else:
                        return self.method(at, part)
            else:
                return has_parameter(at, self.nn)  # config.x, layers[0].y, a method of a parameter
        return has_parameter(at, self.nn)

    def method(self, module: Any, name: str) -> bool:
        """Whether a method of a module, or what it calls, uses a parameter."""
        function = getattr(type(module), name, None)
        if not isinstance(function, FunctionType):
            return False
        code = function.__code__
        if code in self.seen or not source.is_user(code.co_filename) or not code.co_argcount:
            return False
        self.seen.add(code)
        self.branches.read(code.co_filename)
        for node in ast.walk(self.branches.trees.get(code.co_filename, ast.Module([], []))):
            if isinstance(node, ast.FunctionDef) and node.name == name:
                if code.co_firstlineno in (node.lineno, *(d.lineno for d in node.decorator_list)):
                    return self.mention(node.body, {code.co_varnames[0]: module}, node)
        return False


def files_of(thing: Any) -> Set[str]:
    """The files that define something."""
    if isinstance(thing, (str, os.PathLike)):
        return {os.fspath(thing)}
    if hasattr(thing, "modules"):
        classes = {c for m in thing.modules() for c in type(m).__mro__}
        found = {getattr(sys.modules.get(c.__module__), "__file__", None) for c in classes}
        return {f for f in found if f and source.is_user(f)}
    code = getattr(inspect.unwrap(thing), "__code__", None) if callable(thing) else None
    file = code.co_filename if code else getattr(thing, "__file__", None)
    return {file} if file else set()


def has_parameter(thing: Any, nn: Any) -> bool:
    """Whether an object is a parameter, or a module or container of modules that has one."""
    if isinstance(thing, nn.Module):
        return next(thing.parameters(), None) is not None
    if isinstance(thing, (list, tuple)):
        return any(has_parameter(t, nn) for t in thing[:100])
    if isinstance(thing, dict):
        return any(has_parameter(t, nn) for t in list(thing.values())[:100])
    return isinstance(thing, nn.Parameter)


def cuts(node: ast.AST) -> bool:
    """Whether code cuts gradients itself."""
    return any(getattr(n, "attr", "") in ("detach", "detach_", "no_grad", "inference_mode") for n in ast.walk(node))
