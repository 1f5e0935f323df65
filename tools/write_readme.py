"""Runs the Python blocks and the commands of README.md and writes their outputs below them.

    python tools/write_readme.py

Blocks marked `python` run in order in one namespace. The block marked `text` that follows one is
its output: what it printed, the value of a last line that is an expression, and the XlaError if it
raised one, shown as Python does but without the frames inside the library. Another error is an
error here too. In blocks marked `console`, lines that begin with ``$ python`` are run in the root
of the project, those that begin with ``$ xlabuilder`` in the folder where the Python blocks write
their files, and the lines below them are their output; other commands are left alone.

tests/test_readme.py fails when the outputs in README.md are not these.
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

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"

FILE_NAME = "example.py"
"""What the blocks are called in tracebacks and source locations."""

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_python(source: str, namespace: dict[str, Any]) -> str:
    """What a block prints, gives and raises, as text."""
    from builder import XlaError  # the root of the project need not be importable before `main`

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
    """The traceback, of the block's own frames alone."""
    lines = source.splitlines()
    text = ["Traceback (most recent call last):\n"]
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == FILE_NAME and frame.lineno is not None:
            text.append(f'  File "{FILE_NAME}", line {frame.lineno}, in {frame.name}\n')
            text.append(f"    {lines[frame.lineno - 1].strip()}\n")
    return "".join(text + traceback.format_exception_only(error))


def run_commands(block: str) -> str:
    """A block of commands, below each that runs Python what it prints now."""
    written: list[str] = []
    keep = True
    for line in block.splitlines():
        if line.startswith("$ "):
            _, program, *words = shlex.split(line)
            keep = program not in ("python", "xlabuilder")
            written.append(line)
            if not keep:
                written.extend(_printed_by(program, words).splitlines())
        elif keep:
            written.append(line)
    return "\n".join(written) + "\n"


def _printed_by(program: str, words: list[str]) -> str:
    """What `python` or `xlabuilder` prints."""
    folder, environment = ROOT, dict(os.environ)
    if program == "xlabuilder":
        folder, words = Path.cwd(), ["-m", "lowering.cli", *words]
        environment |= {"PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def with_outputs(text: str) -> str:
    """README's text with every output as it comes out now."""
    # A module of its own, so that the blocks don't see what this file defines.
    namespace: dict[str, Any] = {"__name__": "__main__"}
    output: str | None = None
    parts: list[str] = []
    position = 0
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for block in _BLOCK.finditer(text):
                language, content = block[1], block[2]
                if language == "text" and output is None:
                    raise ValueError(f"an output without a block before it:\n{content}")
                if language != "text" and output:
                    raise ValueError(f"an output that README does not show:\n{output}")
                if language == "text":
                    content, output = output or "", None
                elif language == "python":
                    output = run_python(content, namespace)
                elif language == "console":
                    content = run_commands(content)
                start, end = block.span(2)
                parts += [text[position:start], content]
                position = end
        finally:
            os.chdir(before)
    if output:
        raise ValueError(f"an output that README does not show:\n{output}")
    return "".join([*parts, text[position:]])


def main() -> None:
    sys.path.insert(0, str(ROOT))
    # The part about several devices; the tests have as many.
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    README.write_text(with_outputs(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
