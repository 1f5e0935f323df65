"""docs/operations.md is the output of tools/write_operations.py."""

from __future__ import annotations

from scripts import ROOT, load_script

import builder as xb
from builder.schema import SCHEMAS

for imported in ("write_platforms", "xla_builder_h"):  # imported by the next script
    load_script(f"tools/{imported}.py")
writer = load_script("tools/write_operations.py")


def test_the_committed_file_is_current() -> None:
    committed = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert committed == writer.document(), "run `make docs`"


def test_every_operation_has_one_row() -> None:
    rows = [
        line for line in writer.document().splitlines() if line.startswith(("| [`xb.", "| [`b."))
    ]
    assert len(rows) == len(xb.OPERATIONS)


def test_a_signature_shows_optional_arguments_in_brackets() -> None:
    def example(operand, *more, size, kind=None):
        pass

    text = writer.signature_text("example", example, False)
    assert text == "xb.example(operand, *more, size, [kind])"


def test_where_an_op_ran() -> None:
    record = {
        "cpu": {"1": {"a": "ran", "b": "ran", "c": "no"}, "2": {"a": "ran", "b": "no", "c": "no"}},
        "gpu": {"2": {"a": "ran"}},
    }
    assert writer.platforms_text("a", record) == "cpu, gpu"
    assert writer.platforms_text("b", record) == "cpu (jaxlib 1)"
    assert writer.platforms_text("c", record) == "*refused on cpu*"
    assert writer.platforms_text("d", record) == "*(not measured)*"
    assert writer.refusals(record)[2:5] == ["- `b`: no (jaxlib 2)", "- `c`: no", ""]


def test_every_opcode_has_one_row() -> None:
    rows = writer.document().splitlines()
    for opcode in SCHEMAS:
        assert sum(row.startswith(f"| `{opcode}` |") and row.count(" |") == 6 for row in rows) == 1


def test_an_op_called_in_several_forms_shows_all() -> None:
    assert len(writer.call_texts(xb.OPERATIONS["conditional"])) == 3
