"""docs/library.md is the output of tools/write_library.py."""

from __future__ import annotations

import inspect

from scripts import ROOT, load_script
from tables import each_row

from builder import lib

for imported in ("write_platforms", "xla_builder_h", "write_operations"):  # by the next script
    load_script(f"tools/{imported}.py")
writer = load_script("tools/write_library.py")


def test_the_committed_file_is_current() -> None:
    committed = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    assert committed == writer.document(), "run `make docs`"


@each_row("name", lib.FUNCTIONS)
def test_functions(name: str) -> None:
    """Each function is offered by `lib` and by its family, and documented with an example."""
    info = lib.FUNCTIONS[name]
    assert getattr(lib, name) is getattr(getattr(lib, info.family), name) is info.function
    text = inspect.getdoc(info.function) or ""
    assert "\nExample:\n    >>> " in text
    assert all(
        p.annotation is not p.empty for p in inspect.signature(info.function).parameters.values()
    )
