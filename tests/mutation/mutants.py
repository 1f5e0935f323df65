"""Mutants: changes of one place in the source of a module that a test should detect."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

__all__ = ["Mutant", "mutants_of"]

_COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
_ARITHMETIC: Final[dict[type[ast.operator], tuple[str, str]]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
}
_LOGIC: Final[dict[type[ast.boolop], tuple[str, str]]] = {
    ast.And: (r"\band\b", "or"),
    ast.Or: (r"\bor\b", "and"),
}
_TEXTS: Final = (ast.JoinedStr, ast.List, ast.Tuple)


class Mutant(NamedTuple):
    """A change of the source of a module.

    Attributes:
        line: the number of the line.
        start, end: the bytes that are replaced.
        replacement: their replacement.
    """

    line: int
    start: int
    end: int
    replacement: str

    def applied_to(self, source: str) -> str:
        """Return the changed source."""
        code = source.encode()
        return (code[: self.start] + self.replacement.encode() + code[self.end :]).decode()


def mutants_of(source: str) -> list[Mutant]:
    """Return all mutants of a module.

    They change comparisons, logic, arithmetic, conditions, integers, bools and returned values, and
    omit calls whose results are not used. Annotations, assertions, messages, and what is only for
    type checkers remain.
    """
    return sorted(_Places(source).of(ast.parse(source)))


class _Places:
    def __init__(self, source: str) -> None:
        self.code = source.encode()
        lines = self.code.splitlines(keepends=True)
        self.starts = [0]
        for line in lines:
            self.starts.append(self.starts[-1] + len(line))

    def of(self, node: ast.AST) -> Iterator[Mutant]:
        """Yield the mutants of a node and of the nodes in it."""
        yield from self.of_node(node)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not _is_left(child):
                    yield from self.of(child)

    def of_node(self, node: ast.AST) -> Iterator[Mutant]:
        match node:
            case ast.Compare(left=left, ops=operators, comparators=right):
                for operator, before, after in zip(operators, [left, *right], right, strict=False):
                    yield from self.operator(before, after, *_COMPARISONS[type(operator)])
            case ast.BoolOp(op=operator, values=values):
                for before, after in pairwise(values):
                    yield from self.operator(before, after, *_LOGIC[type(operator)])
            case ast.BinOp(op=operator, left=left, right=right) if type(operator) in _ARITHMETIC:
                is_text = any(_is_text(side) for side in (left, right))
                if not is_text:
                    yield from self.operator(left, right, *_ARITHMETIC[type(operator)])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield from self.operator(node, operand, r"not\s*", "")
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                if not isinstance(test, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
                    yield self.mutant(test, f"(not ({self.text(test)}))")
            case ast.Constant(value=bool(value)):
                yield self.mutant(node, str(not value))
            case ast.Constant(value=int(value)):
                yield self.mutant(node, str(value + 1))
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                yield self.mutant(value, "None")
            case ast.Expr(value=ast.Call() as call):
                yield self.mutant(call, "None")

    def operator(
        self, before: ast.expr, after: ast.expr, pattern: str, replacement: str
    ) -> Iterator[Mutant]:
        """Yield the mutant of the operator between two operands, or at the start of `before`."""
        is_inside = self.start(before) <= self.start(after) < self.end(before)
        start, end = (self.start if is_inside else self.end)(before), self.start(after)
        found = re.search(pattern.encode(), self.code[start:end])
        if found is not None:
            at = start + found.start()
            line = self.code.count(b"\n", 0, at) + 1
            yield Mutant(line, at, start + found.end(), replacement)

    def mutant(self, node: ast.expr, replacement: str) -> Mutant:
        """Return the mutant that replaces a node."""
        return Mutant(node.lineno, self.start(node), self.end(node), replacement)

    def start(self, node: ast.expr) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr) -> int:
        return self.starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)

    def text(self, node: ast.expr) -> str:
        return self.code[self.start(node) : self.end(node)].decode()


def _is_left(node: ast.AST) -> bool:
    """Whether a node remains as it is."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    if isinstance(node, ast.keyword):
        return node.arg == "strict"  # of zip: the sequences have equal lengths
    is_definition = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    is_overload = is_definition and any(
        "overload" in ast.unparse(each) for each in node.decorator_list
    )
    return is_overload or isinstance(node, (ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, _TEXTS) or (
        isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))
    )
