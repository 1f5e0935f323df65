"""Run the Python blocks and the commands of documents and write their outputs below them.

    python tools/write_readme.py

Blocks marked `python` run in order in one namespace. The block marked `text` that follows is the
output: the printed text, the value of a last line that is an expression, and the traceback of an
XlaError without the frames inside the library. Any other exception is raised. In blocks marked
`console`, lines that start with ``$ python`` run in the root folder of the project, and lines that
start with ``$ xlabuilder`` in the folder to which the Python blocks write their files. The lines
below are their output. Other commands do not run.

`DOCUMENTS` lists the documents. tests/test_readme.py and tests/test_documents.py fail if their
outputs differ. Outputs that differ only by rounding errors are left unchanged; see
tools/printed_numbers.py.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from printed_numbers import same_output

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = (
    ROOT / "README.md",
    *(
        ROOT / "docs" / name
        for name in ("distributed.md", "guide.md", "index.md", "jax.md", "tutorial.md")
    ),
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
)

FILE_NAME = "example.py"
"""The file name of the blocks in tracebacks and source locations."""

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_python(source: str, namespace: dict[str, Any]) -> str:
    """Run a block and return its output, value and error as text."""
    from builder import XlaError  # importable only once `main` has set sys.path

    tree = ast.parse(source, FILE_NAME)
    last: ast.Expression | None = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]  # it is an Expr
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(tree, FILE_NAME, "exec"), namespace)
            if last is not None:
                value = eval(compile(last, FILE_NAME, "eval"), namespace)
                if value is not None:
                    print(repr(value))
        except XlaError as error:
            print(error_text(error, source), end="")
    text = printed.getvalue().rstrip("\n")
    return text + "\n" if text else ""


def error_text(error: Exception, source: str) -> str:
    """Return the traceback with only the frames of the block."""
    lines = source.splitlines()
    text = ["Traceback (most recent call last):\n"]
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == FILE_NAME and frame.lineno is not None:
            text.append(f'  File "{FILE_NAME}", line {frame.lineno}, in {frame.name}\n')
            text.append(f"    {lines[frame.lineno - 1].strip()}\n")
    return "".join(text + traceback.format_exception_only(error))


def run_commands(block: str) -> str:
    """Return a block of commands with the current output of each that runs Python."""
    lines: list[str] = []
    keep = True
    for line in block.splitlines():
        if line.startswith("$ "):
            _, program, *arguments = shlex.split(line)
            keep = program not in ("python", "xlabuilder")
            lines.append(line)
            if not keep:
                lines.extend(_output(program, arguments).splitlines())
        elif keep:
            lines.append(line)
    return "\n".join(lines) + "\n"


def _output(program: str, arguments: list[str]) -> str:
    """Run `python` or `xlabuilder` and return its output."""
    folder, environment = ROOT, dict(os.environ)
    if program == "xlabuilder":
        folder, arguments = Path.cwd(), ["-m", "lowering.cli", *arguments]
        environment |= {"PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def with_outputs(text: str) -> str:
    """Return the text of a document with the current outputs.

    An output that differs only by rounding errors is left unchanged.
    """
    # Separate from this file's namespace.
    namespace: dict[str, Any] = {"__name__": "__main__"}
    output: str | None = None
    parts: list[str] = []
    position = 0
    original_folder = Path.cwd()
    original_width = os.environ.get("COLUMNS")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["COLUMNS"] = "120"  # the width of tables
        try:
            for block in _BLOCK.finditer(text):
                language, content = block[1], block[2]
                if language == "text" and output is None:
                    raise ValueError(f"an output must follow a python block, got:\n{content}")
                if language != "text" and output:
                    raise ValueError(f"an output is missing after its block:\n{output}")
                current = content
                if language == "text":
                    current, output = output or "", None
                elif language == "python":
                    output = run_python(content, namespace)
                elif language == "console":
                    current = run_commands(content)
                start, end = block.span(2)
                parts += [text[position:start]]
                parts += [content if same_output(content, current) else current]
                position = end
        finally:
            os.chdir(original_folder)
            if original_width is None:
                del os.environ["COLUMNS"]
            else:
                os.environ["COLUMNS"] = original_width
    if output:
        raise ValueError(f"an output is missing after its block:\n{output}")
    return "".join([*parts, text[position:]])


def main() -> None:
    sys.path.insert(0, str(ROOT))
    # Some blocks use several devices. The tests have the same number.
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        document.write_text(with_outputs(text), encoding="utf-8")


if __name__ == "__main__":
    main()
