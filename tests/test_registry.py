"""Every op of the table is whole: it has an example, it is lowered, printed, and tested.

An op that is entered in the table and nowhere else fails here, with a list of what it lacks.
"""

from __future__ import annotations

import ast
import doctest
from functools import cache
from pathlib import Path

import pytest

import builder as xb
import lowering
from builder.ops.registry import OpInfo
from lowering import jaxlib_api
from lowering.rules.registry import ATTRIBUTES, DIRECT, EXCEPTIONS, RULES

TESTS = Path(__file__).parent
FAMILIES = {
    *("elementwise", "reshaping", "indexing", "contraction", "reduction", "linalg"),
    *("normalization", "random", "control_flow", "collectives", "host", "dynamic"),
}
# Ops that an emitter deals with before it looks for a rule.
WITHOUT_RULE = {"parameter"}


def mentions(text: str) -> tuple[set[str], set[str]]:
    """The names that Python source mentions: as attributes of `xb`, and as attributes of anything
    but NumPy; strings (for getattr and tables) count as both."""
    of_package: set[str] = set()
    of_anything: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            of_package.add(node.value)
        elif isinstance(node, ast.Attribute):
            base = node.value.id if isinstance(node.value, ast.Name) else ""
            if base == "xb":
                of_package.add(node.attr)
            if base not in ("np", "operator"):
                of_anything.add(node.attr)
    return of_package, of_anything | of_package


@cache
def mentioned_in(folder: str) -> tuple[frozenset[str], frozenset[str]]:
    found = [mentions(p.read_text(encoding="utf-8")) for p in (TESTS / folder).glob("test_*.py")]
    assert found, f"no tests in {folder}"
    return frozenset().union(*(f[0] for f in found)), frozenset().union(*(f[1] for f in found))


def lacks(info: OpInfo) -> list[str]:
    """What an op of the table lacks, to be shown to whoever added it."""
    found: list[str] = []
    if info.opcode not in DIRECT and info.opcode not in RULES and info.opcode not in WITHOUT_RULE:
        found.append(f"a rule for {info.opcode} in lowering/rules/{info.family}.py")
    documentation = info.function.__doc__ or ""
    if ">>>" not in documentation or f"{info.name}(" not in documentation:
        found.append(f"an example in the docstring that calls {info.name}")
    last_lines = documentation.strip().rpartition("\n\n")[2]
    if "Operation Semantics:" not in last_lines and "xla" not in last_lines.lower():
        found.append("a last line in the docstring that says where it is described")
    # Inference is by opcode, and so are its tests, in part.
    if not {info.name, info.opcode} & mentioned_in("builder")[info.is_method]:
        found.append(f"a test of its inference in tests/builder/test_{info.family}.py")
    if info.name not in mentioned_in("lowering")[info.is_method]:
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
        *("rule", "example", "last", "test", "test", "family")
    ]


def test_a_name_is_found_only_where_the_op_is_meant() -> None:
    of_package, of_anything = mentions("np.first(xb.second, b.third)\nf('fourth')  # xb.fifth")
    assert of_package == {"second", "fourth"}
    assert of_anything == {"second", "third", "fourth"}


def computations_of_example(
    info: OpInfo, monkeypatch: pytest.MonkeyPatch
) -> list[xb.XlaComputation]:
    """Runs the docstring's examples; every computation that they record, built."""
    builders: list[xb.XlaBuilder] = []
    begin = xb.XlaBuilder.__init__

    def noted(self: xb.XlaBuilder, *arguments: object, **named: object) -> None:
        begin(self, *arguments, **named)
        builders.append(self)

    monkeypatch.setattr(xb.XlaBuilder, "__init__", noted)
    names: dict[str, object] = {"__name__": "__main__"}
    for example in doctest.DocTestParser().get_examples(info.function.__doc__ or ""):
        exec(compile(example.source, f"<{info.name}>", "single"), names)
    return [b.build() for b in builders if b.ops and not b.built and b.parent is None]


@pytest.mark.parametrize("name", xb.OPERATIONS)
def test_the_example_is_lowered_and_printed(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """XLA's own parser reads the HLO text, and MLIR's verifier takes the module."""
    info = xb.OPERATIONS[name]
    computations = computations_of_example(info, monkeypatch)
    recorded = {op.opcode for c in computations for op in c.ops}
    assert info.opcode in recorded, f"the example of {name} records {recorded}"
    for computation in computations:
        assert lowering.lower(computation).text
        assert jaxlib_api.hlo_text_to_stablehlo(str(computation))


def test_tables_of_lowering_hold_nothing_else() -> None:
    opcodes = {info.opcode for info in xb.OPERATIONS.values()}
    assert set(DIRECT) | set(RULES) <= opcodes
    assert set(ATTRIBUTES) <= set(DIRECT)
    assert set(EXCEPTIONS) == set(DIRECT) & set(RULES)


def test_names_and_aliases_are_public() -> None:
    for name, info in xb.OPERATIONS.items():
        if info.is_method:
            assert getattr(xb.XlaBuilder, name) is info.function
            continue
        for known in (name, *info.aliases):
            assert getattr(xb, known) is info.function
