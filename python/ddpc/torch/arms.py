"""The branches of Python code: where a file's statements and expressions choose, and between what.

A *choice* is an `if`, a conditional expression, a loop (its body may never run, its `else` neither), a `try`'s
handlers and `else`, a `match`, a comprehension, or the right side of an `and`/`or` that calls something. Its *arms*
are what may be taken. An arm with code is a range of the file; one without, as an `if` that has no `else`, is known by
control leaving the test for somewhere else.

Left out is what cannot hide a gradient: arms that only raise, warn, log, print or assert; tests that ask whether
torch is scripting, tracing, compiling or exporting.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Any, Iterator, List, Optional, Sequence, Tuple

Range = Tuple[int, int, int, int]  #: first line, first column, last line, column after the last; in UTF-8 bytes

ASKS_TORCH = re.compile(
    r"(is_scripting|is_tracing|is_compiling|is_dynamo_compiling|is_torchdynamo_compiling|is_in_onnx_export|is_exporting|"
    r"has_torch_function\w*|_get_tracing_state|is_torch_fx_proxy|is_fx_proxy|TYPE_CHECKING)$"
)
SPEAKS = re.compile(r"(^|\.)(print|warn|warn_once|warning|warning_once|warn_advice|info|debug|error|log|_log_api_usage_once)$")


@dataclass
class Arm:
    """One way to go."""

    label: str
    nodes: Sequence[ast.AST]  #: its code; empty if there is none
    where: Optional[Range]  #: of that code


@dataclass
class Choice:
    """A place where code goes one way or another."""

    line: int
    text: str  #: as a person would point at it: "if self.pool:"
    test: Range  #: code that ran if the choice was reached
    whole: Range  #: the statement or expression with its arms
    arms: List[Arm] = field(default_factory=list)
    function: Optional[ast.AST] = None  #: the innermost function around it
    optional: bool = False  #: worth a word only where an arm names a parameter


def range_of(nodes: Sequence[ast.AST]) -> Range:
    first, last = nodes[0], nodes[-1]
    return first.lineno, first.col_offset, last.end_lineno, last.end_col_offset


def called(node: ast.AST) -> str:
    """What a call calls, as a dotted name, or ""."""
    if isinstance(node, ast.Call):
        parts, f = [], node.func
        while isinstance(f, ast.Attribute):
            parts.append(f.attr)
            f = f.value
        return ".".join([f.id if isinstance(f, ast.Name) else "", *reversed(parts)])
    return ""


def idle(node: ast.stmt) -> bool:
    """A statement that no gradient passes: raising, warning, logging, or nothing at all."""
    if isinstance(node, (ast.Raise, ast.Assert, ast.Pass, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)):
        return True
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or bool(SPEAKS.search(called(node.value)))
    if isinstance(node, ast.If):
        return all(map(idle, node.body + node.orelse))
    return False


def settled(test: ast.expr) -> Optional[bool]:
    """The value of a test that only asks in which of torch's modes the code runs, where it runs eagerly; else None."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        value = settled(test.operand)
        return None if value is None else not value
    if isinstance(test, ast.BoolOp):
        values, decides = [settled(v) for v in test.values], isinstance(test.op, ast.Or)
        if decides in values:
            return decides
        return None if None in values else not decides
    name = called(test) or (test.id if isinstance(test, ast.Name) else getattr(test, "attr", ""))
    return False if ASKS_TORCH.search(name) else None


def default_of(test: ast.expr, name: ast.expr) -> bool:
    """Whether a test is `NAME is None` or its like, so that the other arm is a default for it."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
        return ast.dump(test.left) == ast.dump(name).replace("Store()", "Load()")
    return False


def is_default(test: ast.expr, body: Sequence[ast.AST], orelse: Sequence[ast.AST]) -> bool:
    """`if x is None: x = …`, and `x if x is not None else …`."""
    if len(body) == 1 and not orelse and isinstance(body[0], ast.Assign) and len(body[0].targets) == 1:
        return default_of(test, body[0].targets[0])
    return any(len(arm) == 1 and isinstance(arm[0], ast.expr) and default_of(test, arm[0]) for arm in (body, orelse))


def brief(node: ast.AST, most: int = 60) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= most else text[: most - 1] + "…"


def arm(label: str, nodes: Sequence[ast.AST]) -> Arm:
    return Arm(label, nodes, range_of(nodes) if nodes else None)


class Finder(ast.NodeVisitor):
    """Collects the choices of a file."""

    def __init__(self, lines: Sequence[str]):
        self.lines = lines
        self.choices: List[Choice] = []
        self.functions: List[ast.AST] = []

    def add(self, node: ast.AST, text: str, test: Sequence[ast.AST], arms: List[Arm], optional: bool = False) -> None:
        function = self.functions[-1] if self.functions else None
        self.choices.append(Choice(node.lineno, text, range_of(test), range_of([node]), arms, function, optional))

    def visit_FunctionDef(self, node: Any) -> None:
        self.functions.append(node)
        self.generic_visit(node)
        self.functions.pop()

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Columns inside f-strings are not to be trusted, and no gradient comes out of them."""

    def visit_If(self, node: ast.If) -> None:
        trivial = settled(node.test) is not None or all(map(idle, node.body + node.orelse))
        if not trivial:
            word = "elif" if self.lines[node.lineno - 1].lstrip().startswith("elif") else "if"
            self.add(node, f"{word} {brief(node.test)}:", [node.test],
                     [arm("true", node.body), arm("false", node.orelse)],
                     optional=is_default(node.test, node.body, node.orelse))
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        if settled(node.test) is None:
            self.add(node, f"… if {brief(node.test)} else …", [node.test],
                     [arm("true", [node.body]), arm("false", [node.orelse])],
                     optional=is_default(node.test, [node.body], [node.orelse]))
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        arms = [arm("body", node.body)] + ([arm("else", node.orelse)] if node.orelse else [])
        self.add(node, f"while {brief(node.test)}:", [node.test], arms)
        self.generic_visit(node)

    def visit_For(self, node: Any) -> None:
        arms = [arm("body", node.body)] + ([arm("else", node.orelse)] if node.orelse else [])
        self.add(node, f"for {brief(node.target, 30)} in {brief(node.iter, 40)}:", [node.iter], arms)
        self.generic_visit(node)

    visit_AsyncFor = visit_For

    def visit_Try(self, node: Any) -> None:
        for handler in node.handlers:
            if not all(map(idle, handler.body)):
                what = f"except {brief(handler.type)}:" if handler.type else "except:"
                self.add(handler, what, node.body, [arm("handler", handler.body)])
        if node.orelse:
            self.add(node.orelse[0], "try … else:", node.body, [arm("else", node.orelse)])
        self.generic_visit(node)

    visit_TryStar = visit_Try

    def visit_Match(self, node: Any) -> None:
        for case in node.cases:
            self.add(case.pattern, f"case {brief(case.pattern)}:", [node.subject], [arm("body", case.body)])
        self.generic_visit(node)

    def comprehension(self, node: Any) -> None:
        made = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        first = node.generators[0]
        self.add(node, f"… for {brief(first.target, 30)} in {brief(first.iter, 40)}", [first.iter],
                 [arm("element", made)])
        self.generic_visit(node)

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = comprehension

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:]):
            if settled(left) is None and any(isinstance(n, ast.Call) for n in ast.walk(right)):
                self.add(right, brief(node), [left], [arm("right side", [right])], optional=True)
        self.generic_visit(node)


def choices(text: str) -> Tuple[ast.Module, List[Choice]]:
    """The choices of a file's text, in the order of its lines."""
    tree = ast.parse(text)
    finder = Finder(text.splitlines())
    finder.visit(tree)
    return tree, sorted(finder.choices, key=lambda c: c.test)


def names(nodes: Sequence[ast.AST]) -> Iterator[Tuple[str, List[str]]]:
    """Dotted names that code mentions, as (first name, attributes)."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if called(node) in ("hasattr", "isinstance", "len", "type"):
            continue
        parts: List[str] = []
        inner = node
        if called(node) == "getattr" and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            parts, inner = [str(node.args[1].value)], node.args[0]
            stack.extend(node.args[2:])
        while isinstance(inner, (ast.Attribute, ast.Subscript)):
            if isinstance(inner, ast.Attribute):
                parts.append(inner.attr)
            else:
                parts.clear()
                stack.append(inner.slice)
            inner = inner.value
        if isinstance(inner, ast.Name):
            yield inner.id, parts[::-1]
        elif inner is not node:
            stack.append(inner)
        else:
            stack.extend(ast.iter_child_nodes(node))
