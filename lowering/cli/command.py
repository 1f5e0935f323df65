"""The command itself: its subcommands, and what becomes of their errors."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

import click

__all__ = ["NAME", "FailedError", "ended_by_interrupt", "json_option", "main", "subcommand"]

NAME: Final = "xlabuilder"

FAILED: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130


_ORDER: Final = ("inspect", "convert", "run", "compare", "diff", "ops", "devices")


class FailedError(Exception):
    """The work failed; the text is the message."""


class _Session:
    """What is known of one call of the command.

    Attributes:
        traceback: whether to show where an error comes from.
    """

    def __init__(self) -> None:
        self.traceback = False


class _Group(click.Group):
    """The group of the commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in the order in which one meets them."""
        return sorted(super().list_commands(ctx), key=_ORDER.index)

    def main(self, *args: Any, **named: Any) -> NoReturn:
        """Carries out a command and ends with its exit status; errors are said in two lines."""
        session = _Session()
        if named.get("prog_name") is None:
            named["prog_name"] = NAME
        try:
            status = super().main(*args, **{**named, "standalone_mode": False, "obj": session})
            sys.stdout.flush()
        except BaseException as error:
            status = _status_of(error, session)
        sys.exit(status or 0)


def _status_of(error: BaseException, session: _Session) -> int:
    """Says on stderr what went wrong, and gives the exit status."""
    if isinstance(error, BrokenPipeError):
        # Who read has read enough. What is left in the buffer would raise again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        click.echo(f"{NAME}: interrupted", err=True)
        return INTERRUPTED
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, SystemExit) or not isinstance(error, Exception):
        raise error
    if session.traceback:
        traceback.print_exception(error)
    click.echo(_message(error), err=True)
    return WRONG_USAGE if isinstance(error, click.UsageError) else FAILED


_SAID_HERE: Final = {"to_computation(module, argument_shapes=[...])": "--shape NAME=SHAPE"}
"""What messages tell who writes Python, and what does the same here."""


def _message(error: Exception) -> str:
    """What to say of an error, in one or two lines."""
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx is not None else NAME
        return f"{path}: {error.format_message()}\n`{path} --help` says what it takes."
    if isinstance(error, click.ClickException):
        return f"{NAME}: {error.format_message()}"
    from builder.errors import XlaError

    if isinstance(error, (FailedError, XlaError)):
        first, *rest = str(error).splitlines() or [type(error).__name__]
        fix = next((line for line in rest if line.startswith("fix: ")), "")
        for in_python, here in _SAID_HERE.items():
            fix = fix.replace(in_python, here)
        return f"{NAME}: {first}" + (f"\n{fix}" if fix else "")
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename is not None else ""
        return f"{NAME}: {name}{error.strerror}"
    said = (str(error).strip().splitlines() or [""])[0][:300]
    return f"{NAME}: {type(error).__name__}: {said}\n--traceback shows where it comes from."


@contextlib.contextmanager
def ended_by_interrupt() -> Iterator[None]:
    """Has Ctrl-C end the process at once.

    XLA's compiler and its devices, where a program may run for ever, let nothing of Python's run.
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


def _ask_for_traceback(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value and isinstance(context.obj, _Session):
        context.obj.traceback = True


_traceback_option: Final = click.option(
    "--traceback",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_ask_for_traceback,
    help="Show where in the program an error comes from.",
)

json_option: Final = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, for programs."
)


def _print_versions(context: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or context.resilient_parsing:
        return
    from lowering.cli.devices import versions

    found = versions()
    listed = ", ".join(f"{name} {version}" for name, version in found.items() if name != NAME)
    click.echo(f"{NAME} {found[NAME]} ({listed})")
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
    """Looks at files of StableHLO and HLO, converts, runs and compares them.

    A FILE is MLIR text, MLIR bytecode, a portable artifact, what jax.export serialized, HLO text or
    a protocol buffer of HLO; what it is, its content says. "-" is the standard input.

    The exit status is 0 when all went well, 1 when the work failed (or `diff` and `compare` found a
    difference), 2 when the command was wrong.
    """


def subcommand(name: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Enters the decorated function as a command of `main`."""

    def enter(function: Callable[..., Any]) -> click.Command:
        return main.command(name)(_traceback_option(function))

    return enter
