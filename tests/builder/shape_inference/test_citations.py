"""Every check of shape inference cites the rule that it implements.

A comment above a check names a constraint of StableHLO's specification (docs/spec.md), a section of
Operation Semantics, or a function of XLA. It covers the checks that follow it, up to the first
statement that is neither a check nor an assignment.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

from scripts import ROOT
from tables import each_row

from builder.checking import Check

MODULES = sorted((ROOT / "builder" / "ops").rglob("*.py"))

CITATION = re.compile(
    r"# (?:StableHLO [a-z]|Operation Semantics: [A-Z]|xla_builder\.h: [A-Z]|Not in XLA: [a-z]"
    r"|XLA (?:shape_inference\.cc|xla_data\.proto): [A-Z])"
)
# The others only convert: every op has array operands and at most 2**63 - 1 result elements.
CHECKS = {n for n in vars(Check) if not n.startswith("_")} - {
    *("array", "arrays", "numbered", "op", "result", "shapes"),
}
COUNTS = """
after_all 0, all_gather 6, all_reduce 7, all_to_all 9, batch_norm_grad 5, batch_norm_inference 7,
batch_norm_training 7, bitcast_convert 2, broadcast_in_dim 6, case 4, cholesky 3, clamp 4,
collective_broadcast 3, compare 3, map 4, reduce_precision 3, select 2,
collective_permute 5, composite 4, concatenate 6, convolution 34, dot_general 24,
dynamic_broadcast_in_dim 7, dynamic_iota 2, dynamic_pad 4, dynamic_reshape 4, dynamic_slice 5,
dynamic_update_slice 6, fft 5,
gather 23, get_dimension_size 1,
get_tuple_element 2, if 3, infeed 3, iota 1, outfeed 0, pad 4, recv 5, reduce 8, reduce_scatter 9,
reduce_window 16, reshape 3, reverse 3, rng 3, rng_bit_generator 2, scatter 25,
select_and_scatter 12, send 5, slice 5, sort 5, transpose 4, triangular_solve 4, while 3
"""
CONSTRAINTS = {op: int(count) for op, count in re.findall(r"(\w+) (\d+)", COUNTS)}
"""The number of constraints of each operation in StableHLO's specification."""


def comments(source: str) -> dict[int, str]:
    """Return the comments of a module by line."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {t.start[0]: t.string for t in tokens if t.type == tokenize.COMMENT}


def is_check(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "check"
        and node.func.attr in CHECKS
    )


def uncited(body: Sequence[ast.stmt], after: int, cited_lines: set[int]) -> Iterator[int]:
    """Yield the lines of checks without a citation, in the statements after a line."""
    cited = False
    for statement in body:
        cites = any(line in cited_lines for line in range(after + 1, statement.lineno + 1))
        after = statement.end_lineno or 0
        checks = any(map(is_check, ast.walk(statement)))
        cited = cites or (cited and (checks or isinstance(statement, ast.Assign)))
        if not checks or cited:
            continue
        handlers = getattr(statement, "handlers", [])
        blocks = [getattr(block, "body", []) for block in (statement, *handlers)]
        blocks.append(getattr(statement, "orelse", []))
        if not any(blocks):
            yield statement.lineno
        start = statement.lineno
        for block in filter(None, blocks):
            yield from uncited(block, start, cited_lines)
            start = block[-1].end_lineno


def uncited_lines(source: str) -> list[int]:
    cited_lines = {line for line, text in comments(source).items() if CITATION.match(text)}
    functions = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)]
    return [line for f in functions for line in uncited(f.body, f.lineno, cited_lines)]


@each_row("path", MODULES)
def test_checks_cite_their_source(path: Path) -> None:
    assert not uncited_lines(path.read_text())


@each_row("path", MODULES)
def test_cited_constraints_exist(path: Path) -> None:
    for text in comments(path.read_text()).values():
        if not text.startswith("# StableHLO "):
            continue
        op = text.split()[2].rstrip(":,")
        assert op in CONSTRAINTS, text
        for name, first, last in re.findall(r"\b([a-z_]+) \(|\(C(\d+)(?:-C(\d+))?\)", text):
            op = name or op
            for number in filter(None, (first, last)):
                assert 1 <= int(number) <= CONSTRAINTS[op], text


def test_a_check_without_citation_is_found() -> None:
    source = """
def rev(operand, dimensions):
    check = Check("rev", operand=operand)
    # StableHLO reverse (C3), (C2)
    check.dimensions_in_range(dimensions, of="operand", name="dimensions")
    check.unique(dimensions, name="dimensions")
    print(dimensions)
    if rank:
        check.fail("uncited")
    for _ in dimensions:
        # StableHLO reverse (C1)
        if rank:
            check.fail("cited")
        check.fail("cited as well")
"""
    assert uncited_lines(source) == [9]
