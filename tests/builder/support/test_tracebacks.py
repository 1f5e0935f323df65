"""Errors leave public functions without the library's frames and the exceptions that it caught."""

from __future__ import annotations

import ast
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from processes import run_python
from scripts import ROOT
from tables import each_row

import builder as xb
import lowering
from builder import lib

BODY = """\
import builder as xb

b = xb.XlaBuilder("model")
x = b.parameter(xb.f32[2, 3], "x")

def body(state):
    i, v = state
    return i + 1, v @ v

def main():
    xb.while_(lambda s: s[0] < 3, body, xb.tuple(b.constant(0, xb.s32), x))

"""

FRAMES = """\
  File "FILE", line 11, in main
    xb.while_(lambda s: s[0] < 3, body, xb.tuple(b.constant(0, xb.s32), x))
  File "FILE", line 8, in body
    return i + 1, v @ v
builder.errors.ShapeInferenceError: dot: contracting dimensions must have equal sizes, got \
dimension 1 of lhs (size 3) and dimension 0 of rhs (size 2)
  lhs f32[2,3]
  rhs f32[2,3]
fix: transpose rhs first with xb.transpose(rhs, [1, 0])
at FILE:8
"""


def printed(tmp_path: Path, program: str, status: int = 1, **env: str) -> str:
    """Return what a program writes to stderr, without the lines that mark a part of a line."""
    file = tmp_path / "program.py"
    file.write_text(program)
    return without_marks(run_python(str(file), status=status, env=env).stderr, file)


def traceback_of(tmp_path: Path, program: str) -> str:
    """Run a program in this process; return the traceback that Python prints for its error."""
    file = tmp_path / "program.py"
    file.write_text(program)
    with pytest.raises(Exception) as caught:  # noqa: PT011  (the text is compared)
        exec(compile(program, str(file), "exec"), {"__name__": "__main__"})
    error = caught.value
    assert error.__traceback__ is not None
    error.__traceback__ = error.__traceback__.tb_next  # without the frame of this function
    return without_marks("".join(traceback.format_exception(error)), file)


def without_marks(text: str, file: Path) -> str:
    lines = text.replace(str(file), "FILE").splitlines(keepends=True)
    return "".join(line for line in lines if not line.strip() or line.strip("~^ \n"))


def test_in_a_terminal(tmp_path: Path) -> None:
    calls = '  File "FILE", line 13, in <module>\n    main()\n'
    expected = f"Traceback (most recent call last):\n{calls}{FRAMES}"
    assert printed(tmp_path, BODY + "main()\n") == expected


def test_in_a_thread(tmp_path: Path) -> None:
    program = f"{BODY}import threading\nthread = threading.Thread(target=main)\nthread.start()\n"
    text = printed(tmp_path, program, status=0)
    assert text.startswith("Exception in thread Thread-1 (main):\n")
    assert text.endswith(FRAMES)
    assert str(ROOT) not in text


def test_the_environment_shows_internal_frames(tmp_path: Path) -> None:
    text = printed(tmp_path, f"{BODY}main()\n", XLABUILDER_SHOW_INTERNAL_FRAMES="1")
    assert str(ROOT / "builder" / "ops" / "control_flow.py") in text
    assert text.endswith("at FILE:8\n")


JIT = """\
import numpy as np

import builder as xb
import lowering

@lowering.jit
def f(x):
    return xb.concatenate([x, x], 0)

try:
    f.absent
except AttributeError:
    f(np.float32(1))
"""


def test_exceptions_that_the_library_caught_are_not_printed(tmp_path: Path) -> None:
    """The lookup in a cache raises KeyError. The user's AttributeError is printed."""
    text = traceback_of(tmp_path, JIT)
    assert "KeyError" not in text
    # One frame: Python looks for the attribute in a method of the library, without a decorator.
    assert text.count(str(ROOT)) == 1
    assert "in __getattr__\n" in text
    assert text.count("Traceback (most recent call last)") == 2
    assert "AttributeError" in text
    assert "During handling of the above exception, another exception occurred:" in text


def test_exceptions_of_the_users_functions_are_printed(tmp_path: Path) -> None:
    program = BODY.replace("v @ v", "v[0.5]")
    text = traceback_of(tmp_path, program + "main()\n")
    assert text.splitlines()[-1].startswith("at FILE:8")
    callback = "def f(x):\n    return {}[x]\n\nimport builder as xb\nx = xb.XlaBuilder().parameter"
    text = traceback_of(tmp_path, callback + "(xb.f32[2])\nxb.map([x], f)\n")
    assert "KeyError" in text
    assert "in f\n" in text


@pytest.mark.parametrize("decorator", ["lowering.jit", "lowering.jit(num_replicas=1)"])
@pytest.mark.parametrize("expression", ["1 / 0", "len(3)", "{}[1]", "int('x')", "[][1]"])
def test_errors_of_a_function_have_no_internal_frames_or_context(
    tmp_path: Path, decorator: str, expression: str
) -> None:
    function = f"@{decorator}\ndef f(x):\n    return {expression}\n"
    text = traceback_of(tmp_path, f"import lowering\n{function}f(3)\n")
    lines = text.splitlines()
    assert lines[:-1] == [
        "Traceback (most recent call last):",
        '  File "FILE", line 5, in <module>',
        "    f(3)",
        '  File "FILE", line 4, in f',
        f"    return {expression}",
    ]


@pytest.mark.parametrize("call", ["from_jax(f, xb.f32[3])", "apply(f, x)", "jit(g)(3)"])
def test_errors_of_functions_of_jax(tmp_path: Path, call: str) -> None:
    functions = "def f(x):\n    return {}[1]\ndef g(x):\n    return lowering.apply(f, x)\n"
    setup = 'import builder as xb\nimport lowering\nx = xb.XlaBuilder().parameter("f32[]")\n'
    text = traceback_of(tmp_path, f"{setup}{functions}lowering.{call}\n")
    assert str(ROOT) not in text
    assert '  File "FILE", line 5, in f\n    return {}[1]\nKeyError: 1\n' in text


def test_frames_of_a_defect_of_the_library_are_printed(tmp_path: Path) -> None:
    text = traceback_of(
        tmp_path,
        "import lowering\n"
        "from builder.graph.subcomputations import record_callable\n"
        "lowering.jit(lambda x: record_callable('op', 'f', None, 3))(3)\n",
    )
    assert str(ROOT / "builder" / "graph" / "subcomputations.py") in text


def test_functions_of_jax_that_are_called_with_ops(tmp_path: Path) -> None:
    calls = "@lowering.jit\ndef f(x):\n    return xb.while_(lambda s: s > 0, jnp.tanh, x)\nf(3.0)"
    text = traceback_of(
        tmp_path, f"import builder as xb\nimport jax.numpy as jnp\nimport lowering\n{calls}\n"
    )
    fix = "fix: call a function of jax with lowering.apply(function, op)"
    assert text.count(fix) == 1
    # jax's own frames may be there, from an environment inside the project.
    assert str(ROOT / "builder") not in text
    assert str(ROOT / "lowering") not in text


SHELL = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(history_length=0, colors="nocolor", xmode="Context")
for cell in sys.argv[1:]:
    shell.run_cell(cell, store_history=True)
"""

IN_IPYTHON = """\
Cell In[1], line 13
     10 def main():
     11     xb.while_(lambda s: s[0] < 3, body, xb.tuple(b.constant(0, xb.s32), x))
---> 13 main()

Cell In[1], line 11, in main()
     10 def main():
---> 11     xb.while_(lambda s: s[0] < 3, body, xb.tuple(b.constant(0, xb.s32), x))

Cell In[1], line 8, in body(state)
      6 def body(state):
      7     i, v = state
----> 8     return i + 1, v @ v

"""


FUNCTION = "import lowering\n@lowering.jit\ndef f(x):\n    return 1 / 0\nf(3)\n"


def test_in_ipython(tmp_path: Path) -> None:
    env = {"IPYTHONDIR": str(tmp_path)}
    cells = BODY + "main()\n", FUNCTION
    shown = run_python("-W", "default", "-c", SHELL, *cells, env=env).stdout
    _, of_an_op, of_a_function = shown.split("Traceback (most recent call last)\n")

    frames, error, message = of_an_op.partition("ShapeInferenceError: ")
    assert frames == IN_IPYTHON
    assert error
    assert "\nat In[1]:8\n" in message

    assert of_a_function.count("Cell In[2], line") == 2
    assert str(ROOT) not in of_a_function
    assert of_a_function.rstrip().endswith("ZeroDivisionError: division by zero")


def test_nothing_is_replaced_in_other_modules() -> None:
    before = sys.excepthook, threading.excepthook
    with pytest.raises(xb.XlaError):
        xb.rev(MATRIX, [5])
    assert (sys.excepthook, threading.excepthook) == before
    assert sys.excepthook is sys.__excepthook__


MATRIX = xb.XlaBuilder().parameter(xb.f32[2, 3])

RAISING: dict[str, Callable[[], object]] = {
    "an op with a generated body": lambda: xb.rev(MATRIX, [5]),
    "an op by hand that applies a function": lambda: xb.while_(xb.rev, xb.rev, MATRIX),
    "a function of lib": lambda: lib.softmax(MATRIX, 7),
    "a function of lowering": lambda: lowering.to_computation("absent.mlir"),
    "a jitted function": lambda: lowering.jit(lambda x: xb.rev(x, [5]))(np.zeros(3, np.float32)),
}


def frames_of(call: Callable[[], object]) -> list[str]:
    """Return the functions in the traceback of the error that a call raises."""
    with pytest.raises(xb.XlaError) as caught:
        call()
    return [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]


@each_row("case", RAISING)
def test_an_error_has_no_frames_of_the_library(case: str) -> None:
    assert set(frames_of(RAISING[case])) == {"frames_of", "<lambda>"}


def test_an_error_has_all_frames_if_they_are_shown() -> None:
    xb.show_internal_frames()
    try:
        names = frames_of(RAISING["an op with a generated body"])
    finally:
        xb.show_internal_frames(False)
    assert len(names) > 4
    assert "rev" in names


def test_the_exception_that_the_user_handled_is_the_context() -> None:
    try:
        {}["key"]
    except KeyError:
        with pytest.raises(xb.XlaError) as caught:
            xb.rev(MATRIX, [5])
    assert isinstance(caught.value.__context__, KeyError)
    assert not caught.value.__suppress_context__


def raised_in_handlers(tree: ast.AST, *, in_handler: bool = False) -> Iterator[ast.Raise]:
    """Yield the `raise` statements with an exception in `except` blocks of the same function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            yield from raised_in_handlers(node)
            continue
        inside = in_handler or isinstance(node, ast.ExceptHandler)
        if isinstance(node, ast.Raise) and node.exc is not None and in_handler:
            yield node
        yield from raised_in_handlers(node, in_handler=inside)


def test_a_raise_in_a_handler_has_a_cause_or_none() -> None:
    """Otherwise the exception that was handled is printed if a function of the user raised it."""
    for package in ("builder", "lowering"):
        for path in (ROOT / package).rglob("*.py"):
            source = path.read_text()
            # Parsing all files takes a second.
            tree = ast.parse(source if "except " in source else "")
            for node in raised_in_handlers(tree):
                assert node.cause is not None, f"{path}:{node.lineno}: write `from None`"
