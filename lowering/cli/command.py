"""The command `xlabuilder`: the group of its subcommands, their errors and their output."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

if TYPE_CHECKING:
    from builder.graph.computation import XlaComputation
    from builder.inspection.parts import TextTable
    from builder.inspection.rendering import Span
    from builder.support.display import Displayed


_DEFAULT_WIDTH: Final = 160
"""The width of tables, in characters, in files and pipes, if COLUMNS is not set."""

_IN_OTHER_ENCODINGS: Final = str.maketrans("─▸█", "->#")
"""Characters of tables, and what replaces them if the output's encoding does not have them."""


def show(*parts: str | list[Span] | TextTable | Displayed) -> None:
    """Print lines, tables and objects; in colour on a terminal, unless NO_COLOR is set.

    In files and pipes, lines are not wrapped, and tables are if they are wider than COLUMNS. Only
    colours need rich, whose import takes a tenth of the time of a short command.
    """
    from builder.inspection.rendering import printable, text_of
    from builder.support.display import Displayed

    if sys.stdout.isatty() or os.environ.get("FORCE_COLOR"):
        _print_in_colour(parts)
        return
    width = shutil.get_terminal_size((_DEFAULT_WIDTH, 0)).columns
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(printable(part))
        elif isinstance(part, list):
            texts.append("".join(printable(text) for text, _ in part))
        else:
            texts.append(text_of(part._parts() if isinstance(part, Displayed) else [part], width))
    # In one piece, so that a reader that closes the pipe early has all of it.
    click.echo(_encodable("\n".join(texts)))


def _encodable(text: str) -> str:
    """Return a text that the standard output can encode."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_IN_OTHER_ENCODINGS)
        return text.encode(encoding, "backslashreplace").decode(encoding)
    return text


def _print_in_colour(parts: Iterable[str | list[Span] | TextTable | Displayed]) -> None:
    from rich.console import Console
    from rich.text import Text

    from builder.inspection.parts import TextTable
    from builder.inspection.rendering import printable, rich_of

    terminal = Console(highlight=False)
    for part in parts:
        if isinstance(part, str):
            terminal.print(printable(part), markup=False, soft_wrap=True)
        elif isinstance(part, list):
            terminal.print(Text.assemble(*[(printable(text), style) for text, style in part]))
        else:
            terminal.print(rich_of([part]) if isinstance(part, TextTable) else part)


def table(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[object]]) -> TextTable:
    """Return a table for `show`.

    Args:
        columns: the heading of each column, and its alignment: "left" or "right".
        rows: the cells of each row.
    """
    from builder.inspection.parts import Column, TextTable

    headings = tuple(Column(name, side == "right") for name, side in columns)
    return TextTable("", headings, [list(map(str, row)) for row in rows])


_LONGEST_SIGNATURE: Final = 100
"""The number of characters of a signature that is printed in full."""


def signature_text(computation: XlaComputation) -> str:
    """Return the name and the signature of a computation, without the parameters of a long one."""
    from builder.types.shape import TupleShape

    signature = computation.program_shape
    result = signature.result
    text = f"{computation.name}{signature}"
    if len(text) > _LONGEST_SIGNATURE:
        parameters = f"{computation.name}: {len(signature.parameters)} parameters"
        text = f"{parameters} -> {result}"
        if len(text) > _LONGEST_SIGNATURE and isinstance(result, TupleShape):
            text = f"{parameters} -> a tuple of {len(result.elements)}"
    return text


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


NAME: Final = "xlabuilder"

FAILED: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130


_ORDER: Final = (
    *("inspect", "convert", "run", "compare", "minimize", "test", "diff", "draw", "ops", "devices"),
    "versions",
)


class FailedError(Exception):
    """Raised if a command fails.

    Attributes:
        reason, fix: the parts of the printed message.
    """

    def __init__(self, reason: str, fix: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.fix = fix


class _Group(click.Group):
    """The group of the subcommands, which prints errors in two lines."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of `_ORDER`."""
        return sorted(super().list_commands(ctx), key=_ORDER.index)

    def main(self, *args: Any, **named: Any) -> NoReturn:
        """Run a command and exit with its status; errors are printed in two lines."""
        settings = {"traceback": False}
        if named.get("prog_name") is None:
            named["prog_name"] = NAME
        # Imports take most of the time; the collector would visit what is imported again and again.
        thresholds = gc.get_threshold()
        gc.set_threshold(100_000)
        try:
            status = super().main(*args, **{**named, "standalone_mode": False, "obj": settings})
            sys.stdout.flush()
        except BaseException as error:
            status = _status_of(error, with_traceback=settings["traceback"])
        finally:
            gc.set_threshold(*thresholds)
        sys.exit(status or 0)


def _status_of(error: BaseException, *, with_traceback: bool) -> int:
    """Print an error on stderr, and return the exit status for it."""
    if isinstance(error, BrokenPipeError):
        # The reader closed the pipe. Flushing the buffer at exit would raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        click.echo(f"{NAME}: interrupted", err=True)
        return INTERRUPTED
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, SystemExit) or not isinstance(error, Exception):
        raise error
    if with_traceback:
        traceback.print_exception(error)
    click.echo(_message(error), err=True)
    return WRONG_USAGE if isinstance(error, click.UsageError) else FAILED


_OPTIONS: Final = (
    (r"to_computation\(module, argument_shapes=\[.*?\]\)", "--shape NAME=SHAPE"),
    (r"lowering\.compile\(\.\.\., argument_shapes=\[.*?\]\)", "--shape NAME=SHAPE"),
    (r"\bargument_shapes\[\d+\] must", "--shape must"),
    (r"write the required sizes in argument_shapes", "pass the required sizes with --shape"),
    (r"\bcomposites='inline'", "--inline-composites"),
    (r": without must", ": --without must"),
    (r": version must", ": --target must"),
    (r"omit '(\w+)' from without", r"omit --without \1"),
    (
        r"^xlabuilder: (artifact: .*\nfix: )write version ([\d.]+)",
        r"xlabuilder: \1pass --target \2",
    ),
)
"""Python code in messages, and the option of the command to print instead."""

_WITHOUT: Final = re.compile(r"\bwithout=\[([^\]]*)\]")


def _with_options(message: str) -> str:
    """Return a message with the options of the command in place of arguments of functions."""
    for code, option in _OPTIONS:
        message = re.sub(code, option, message)
    return _WITHOUT.sub(_without_options, message)


def _without_options(match: re.Match[str]) -> str:
    return " ".join(f"--without {name}" for name in re.findall(r"\w+", match[1]))


def _message(error: Exception) -> str:
    """Return the message of an error in one or two lines."""
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx is not None else NAME
        reason = error.format_message()
        options = () if error.ctx is None else error.ctx.command.params
        takes_arrays = any("--input" in option.opts for option in options)
        if takes_arrays and "unexpected extra argument" in reason:
            return f"{path}: {reason}\nfix: pass arrays with --input NAME=FILE"
        return f"{path}: {reason}\nSee `{path} --help`."
    if isinstance(error, click.ClickException):
        return f"{NAME}: {error.format_message()}"
    from builder.errors import XlaError, statement_of
    from builder.support.imports import missing_requirement

    if isinstance(error, ModuleNotFoundError):
        missing = missing_requirement(error, NAME)
        if missing is not error:
            return str(missing)
    if isinstance(error, (FailedError, XlaError)):
        reason = error.reason if isinstance(error, FailedError) else statement_of(error)
        reason, fix = ((text.splitlines() or [""])[0] for text in (reason, error.fix))
        return _with_options(f"{NAME}: {reason}" + (f"\nfix: {fix}" if fix else ""))
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename is not None else ""
        return f"{NAME}: {name}{error.strerror}"
    reason = (str(error).strip().splitlines() or [""])[0][:300]
    return f"{NAME}: {type(error).__name__}: {reason}\n--traceback shows where it was raised."


@contextlib.contextmanager
def ended_by_interrupt() -> Iterator[None]:
    """Let Ctrl-C end the process immediately.

    Python's handlers do not run while XLA compiles or executes a program.
    """
    handler = signal.getsignal(signal.SIGINT)
    if handler is not signal.default_int_handler or (
        threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _enable_traceback(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value and context.obj is not None:
        context.obj["traceback"] = True


_traceback_option: Final = click.option(
    "--traceback",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_enable_traceback,
    help="Print the traceback of an error.",
)

json_option: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def versions() -> dict[str, str]:
    """Return the versions of this project and its dependencies."""
    import platform
    from importlib import metadata

    def version(name: str) -> str:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:  # run from the source folder
            return "(not installed)"

    from lowering.jaxlib_api import versions

    return {
        **{name: version(name) for name in (NAME, "jax", "jaxlib", "numpy", "ml_dtypes")},
        "StableHLO": versions.current_version(),
        "Python": platform.python_version(),
    }


def _print_versions(context: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or context.resilient_parsing:
        return
    own, *others = (f"{name} {version}" for name, version in versions().items())
    click.echo(f"{own} ({', '.join(others)})")
    context.exit()


@click.group(
    NAME,
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_versions,
    help="Print the versions and exit.",
)
@_traceback_option
def main() -> None:
    """Inspect, convert, run and compare files of StableHLO and HLO.

    A FILE is MLIR text, MLIR bytecode, a portable artifact, a serialized jax.export.Exported, HLO
    text or an HLO protocol buffer, as detected from its content. "-" is the standard input.

    The exit status is 0 for success, 1 for a failure or for a difference found by `diff` or
    `compare`, and 2 for a usage error.
    """


def subcommand(name: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Register the decorated function as a command of `main`."""

    def enter(function: Callable[..., Any]) -> click.Command:
        return main.command(name)(_traceback_option(function))

    return enter
