"""Write the table of docs/how-to/index.md: ten programs, with their lines here and in jax."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from scripts import load_script  # noqa: E402  (needs tests/ on the path)

from tools.generated_block import with_block  # noqa: E402  (needs ROOT on the path)

PAGE = ROOT / "docs" / "how-to" / "index.md"
WRITER = "tools/write_programs.py (make docs)"


def table() -> str:
    """Return the table as Markdown."""
    for name in ("digits", "convnet"):  # imported by other examples
        load_script(f"examples/{name}.py")
    programs = load_script("tests/examples/programs_of_jax.py").PROGRAMS
    lines = ["| Program | | lines | lines in jax |", "| --- | --- | ---: | ---: |"]
    for name, program in programs.items():
        if program.shows:
            ours, theirs = program.lines(load_script(f"examples/{name}.py"))
            link = f"[{name}.py](../../examples/{name}.py)"
            lines.append(f"| {link} | {program.shows} | {ours} | {theirs} |")
    return "\n".join(lines) + "\n"


def with_table(text: str, content: str) -> str:
    """Return the text of the page with this table."""
    return with_block(text, WRITER, content)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), table()), encoding="utf-8")
