"""Every op of the table is whole: it has an example, it is lowered, printed, and tested.

An op that is entered in the table and nowhere else fails here, with a list of what it lacks.
"""

from __future__ import annotations

import ast
import json
from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

import pytest
from scripts import load_script

import builder as xb
import lowering
from builder.graph.registry import OpInfo
from lowering.jaxlib_api import hlo_conversion
from lowering.stablehlo.rules.registry import EXCEPTIONS, ONE_TO_ONE, RULES

TESTS = Path(__file__).parent
FAMILIES = {
    *("elementwise", "reshaping", "indexing", "contraction", "reduction", "linalg"),
    *("normalization", "random", "control_flow", "collectives", "host", "dynamic", "sharding"),
}
# Ops that an emitter deals with before it looks for a rule.
WITHOUT_RULE = {"parameter"}


@dataclass
class Uses:
    """Where tests use operations: as attributes of `xb` or, for methods, of anything but NumPy; or
    by their names in tables, in modules that take them from `xb` by `getattr`.

    Attributes:
        used: anywhere.
        executed: in functions that run what they build, or are called by such, or call such.
        refused: where a test expects a compiler's refusal.
        rejected: where a test expects an error and looks at its words.
    """

    used: set[str] = field(default_factory=set)
    executed: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    rejected: set[str] = field(default_factory=set)


class Tree:
    """A module of tests, in which what stands inside a node is found quickly."""

    def __init__(self, text: str) -> None:
        self.module = ast.parse(text)
        self.nodes: list[ast.AST] = []
        self.spans: dict[ast.AST, tuple[int, int]] = {}
        self._enter(self.module)

    def _enter(self, node: ast.AST) -> None:
        start = len(self.nodes)
        self.nodes.append(node)
        for child in ast.iter_child_nodes(node):
            self._enter(child)
        self.spans[node] = start, len(self.nodes)

    @cached_property
    def places(self) -> list[tuple[int, str, str]]:
        """Of each attribute its place, what it is of, and its name; of names, "" and the name."""
        found = []
        for index, node in enumerate(self.nodes):
            if isinstance(node, ast.Attribute):
                base = node.value.id if isinstance(node.value, ast.Name) else "?"
                found.append((index, base, node.attr))
            elif isinstance(node, ast.Name):
                found.append((index, "", node.id))
        return found

    def _inside(self, node: ast.AST) -> list[tuple[int, str, str]]:
        start, end = self.spans[node]
        return self.places[bisect_left(self.places, (start,)) : bisect_left(self.places, (end,))]

    @cached_property
    def other_names(self) -> dict[str, str]:
        """What is said by another name in the module: ``CALL = xb.custom_call``."""
        return {
            target.id: node.value.attr
            for node in self.module.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute)
            for target in node.targets
            if isinstance(target, ast.Name) and ast.unparse(node.value).startswith("xb.")
        }

    def operations(self, node: ast.AST, methods: bool) -> set[str]:
        """The attributes of `xb` used inside; of `methods`, those of anything but NumPy."""
        found = {self.other_names.get(name) for _, base, name in self._inside(node) if not base}
        found |= {
            name
            for _, base, name in self._inside(node)
            if (base not in ("", "np", "operator") if methods else base == "xb")
        }
        return {name for name in found if name is not None}

    def identifiers(self, node: ast.AST) -> set[str]:
        return {name for _, _, name in self._inside(node)}


def names_in_tables(module: ast.Module) -> set[str]:
    """The strings that are keys or elements of a display anywhere in a module."""
    found = set()
    for node in ast.walk(module):
        elements: list[ast.expr | None] = []
        if isinstance(node, ast.Dict):
            elements = node.keys
        elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            elements = [*node.elts]
        for one in elements:
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                found |= set(one.value.split())
    return found


def takes_by_name(node: ast.AST) -> bool:
    """Whether there is a ``getattr(xb, ...)``, or of a builder, inside."""
    return any(
        isinstance(one, ast.Call)
        and isinstance(one.func, ast.Name)
        and one.func.id == "getattr"
        and isinstance(one.args[0], ast.Name)
        for one in ast.walk(node)
    )


def checks_words(block: ast.With) -> bool:
    """Whether a ``with`` block expects an error, and by its words or to look at it later."""
    for item in block.items:
        expected = item.context_expr
        if (
            isinstance(expected, ast.Call)
            and isinstance(expected.func, (ast.Attribute, ast.Name))
            and "raises" in ast.unparse(expected.func)
            and (item.optional_vars or any(k.arg == "match" for k in expected.keywords))
        ):
            return True
    return False


def uses_in(text: str, methods: bool) -> Uses:
    """What a module of tests uses."""
    tree = Tree(text)
    module, identifiers = tree.module, tree.identifiers

    def operations(node: ast.AST) -> set[str]:
        return tree.operations(node, methods)

    uses = Uses(operations(module))
    functions = {node.name: node for node in tree.nodes if isinstance(node, ast.FunctionDef)}
    joined = {n: identifiers(f) & functions.keys() for n, f in functions.items()}
    tables = names_in_tables(module) if takes_by_name(module) else set()
    uses.used |= tables
    # Functions that run what they build, and all that are joined with them by calls.
    running = {n for n, f in functions.items() if RUNS & identifiers(f)}
    while True:
        more = {n for n in functions if n not in running and joined[n] & running}
        more |= {n for r in running for n in joined[r]} - running
        if not more:
            break
        running |= more
    for name in running:
        uses.executed |= operations(functions[name])
    if running:
        uses.executed |= tables
        # What is built outside of functions, for instance in tables of lambdas.
        for node in module.body:
            if isinstance(node, (ast.Assign, ast.AnnAssign)):
                uses.executed |= operations(node)
    for function in functions.values():
        if "CompileError" in identifiers(function):
            uses.refused |= operations(function)
    if "CompileError" in identifiers(module):
        uses.refused |= tables
    checks = [n for n in tree.nodes if isinstance(n, ast.With) and checks_words(n)]
    for block in checks:
        uses.rejected |= operations(block)
    if checks:
        uses.rejected |= tables
        # Tables of calls that are to fail, and calls given to a helper that expects that.
        for node in tree.nodes:
            if isinstance(node, (ast.Dict, ast.List)) or is_parametrized(node):
                uses.rejected |= operations(node)
                for helper in identifiers(node) & functions.keys():
                    uses.rejected |= operations(functions[helper])
    spans = [tree.spans[block] for block in checks]
    checking = {
        name
        for name, function in functions.items()
        if not name.startswith("test_")
        and any(tree.spans[function][0] < s and e <= tree.spans[function][1] for s, e in spans)
    }
    for name, function in functions.items():
        if joined[name] & checking:
            uses.rejected |= operations(function)
    return uses


def is_parametrized(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and "parametrize" in ast.unparse(node.func)


RUNS = {"run", "run_alone", "run_replicated", "compile"}
"""What executes a computation, in tests/lowering."""


@cache
def uses_by_tests(folder: str, methods: bool) -> Uses:
    every = [
        uses_in(path.read_text(encoding="utf-8"), methods)
        for path in (TESTS / folder).glob("test_*.py")
    ]
    assert every, f"no tests in {folder}"
    return Uses(
        *(
            set().union(*(getattr(one, name) for one in every))
            for name in ("used", "executed", "refused", "rejected")
        )
    )


@cache
def refused_on_cpu() -> frozenset[str]:
    """The operations that docs/platforms.json notes as refused on CPU."""
    versions = json.loads((TESTS.parent / "docs" / "platforms.json").read_text(encoding="utf-8"))
    return frozenset(
        name
        for answers in versions["cpu"].values()
        for name, answer in answers.items()
        if answer != "ran"
    )


def lacks(info: OpInfo) -> list[str]:
    """What an op of the table lacks, to be shown to whoever added it."""
    found: list[str] = []
    if (
        info.opcode not in ONE_TO_ONE
        and info.opcode not in RULES
        and info.opcode not in WITHOUT_RULE
    ):
        found.append(f"a rule for {info.opcode} in lowering/stablehlo/rules/{info.family}.py")
    documentation = info.function.__doc__ or ""
    if ">>>" not in documentation or f"{info.name}(" not in documentation:
        found.append(f"an example in the docstring that calls {info.name}")
    last_lines = documentation.strip().rpartition("\n\n")[2]
    if not last_lines.lstrip().startswith(("Operation Semantics: ", "Not in the document; ")):
        found.append("a last line in the docstring that says where it is described")
    inference = uses_by_tests("builder", info.is_method)
    known = {info.name, *info.aliases}
    if not known & inference.used:
        found.append(f"a test of its inference in tests/builder/test_{info.family}.py")
    if not known & inference.rejected:
        found.append(f"a rejecting test, by its message, in tests/builder/test_{info.family}.py")
    execution = uses_by_tests("lowering", info.is_method)
    if info.name in refused_on_cpu():
        # It is the opcode that is refused, whichever op records it.
        alike = {name for name, one in xb.OPERATIONS.items() if one.opcode == info.opcode}
        if not alike & execution.refused:
            found.append(f"a refusing test in tests/lowering/test_{info.family}.py")
    elif not known & execution.executed:
        found.append(f"a test of its execution in tests/lowering/test_{info.family}.py")
    if info.family not in FAMILIES:
        found.append(f"a family that exists, got {info.family}")
    return found


@pytest.mark.parametrize("name", xb.OPERATIONS)
def test_op_is_whole(name: str) -> None:
    info = xb.OPERATIONS[name]
    assert info.name == name
    missing = lacks(info)
    assert not missing, f"{name} lacks:\n  " + "\n  ".join(missing)


def test_an_op_that_is_not_whole_fails() -> None:
    def never_heard_of(operand):
        """Does something."""

    info = OpInfo("never_" + "heard_of", never_heard_of, "unheard", "NeverHeardOf", "nowhere", "")
    assert [m.split(" ")[1] for m in lacks(info)] == [
        *("rule", "example", "last", "test", "rejecting", "test", "family")
    ]


EXAMPLE_OF_TESTS = """
import numpy as np
TABLE = {"in_a_table": 1}

def built():
    return xb.built_by_a_helper()

def test_runs():
    np.not_ours()
    run(built(), xb.executed_here(1))

def test_refused():
    with pytest.raises(CompileError):
        go(xb.refused_here)

def test_rejected():
    "a string"
    with pytest.raises(ValueError, match="words"):
        xb.rejected_here(2)
    with pytest.raises(ValueError):
        xb.rejected_without_words(2)
    b.method_of_a_builder()
"""


def test_a_name_is_found_only_where_the_op_is_meant() -> None:
    uses = uses_in(EXAMPLE_OF_TESTS, methods=False)
    assert uses.executed == {"built_by_a_helper", "executed_here"}
    assert uses.refused == {"refused_here"}
    assert uses.rejected == {"rejected_here"}
    rest = {"rejected_here", "rejected_without_words"}
    assert uses.used == uses.executed | uses.refused | rest
    methods = uses_in(EXAMPLE_OF_TESTS, methods=True)
    assert "method_of_a_builder" in methods.used - methods.executed
    assert not any("not_ours" in vars(methods)[name] for name in vars(methods))
    by_name = uses_in(EXAMPLE_OF_TESTS + "f = getattr(xb, name)", methods=False)
    assert "in_a_table" in by_name.used & by_name.executed & by_name.rejected
    assert "a string" not in by_name.used


@pytest.mark.parametrize("name", xb.OPERATIONS)
def test_the_example_is_lowered_and_printed(name: str) -> None:
    """XLA's own parser reads the HLO text, and MLIR's verifier takes the module."""
    info = xb.OPERATIONS[name]
    computations = load_script("tools/write_platforms.py").computations_of_example(info)
    recorded = {op.opcode for c in computations for op in c.ops}
    assert info.opcode in recorded, f"the example of {name} records {recorded}"
    for computation in computations:
        assert lowering.lower(computation).text
        text = str(computation)
        assert hlo_conversion.hlo_text_to_stablehlo(text)


def test_tables_of_lowering_hold_nothing_else() -> None:
    opcodes = {info.opcode for info in xb.OPERATIONS.values()}
    assert set(ONE_TO_ONE) | set(RULES) <= opcodes
    assert set(EXCEPTIONS) == set(ONE_TO_ONE) & set(RULES)


def test_names_and_aliases_are_public() -> None:
    for name, info in xb.OPERATIONS.items():
        if info.is_method:
            assert getattr(xb.XlaBuilder, name) is info.function
            continue
        for known in (name, *info.aliases):
            assert getattr(xb, known) is info.function
