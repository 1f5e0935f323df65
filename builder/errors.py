"""The errors that xlabuilder raises.

Besides the message, each error has attributes: `op`, the name of the operation; `shapes`, the
operand shapes by argument name; `dimension`, the dimension at fault; `rule` and `fix`, the parts of
the message.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final, Self, TypeVar

from builder.support.caller import caller_frame, shown_file
from builder.support.displayed import Displayed
from builder.support.tracebacks import UserError, show_frames

_CONTEXT: Final = 100
"""The number of characters of a text that a message shows before and after an error in it."""


def brief(value: object, limit: int = 200) -> str:
    """Return `repr(value)` for messages, at most `limit` characters long."""
    if isinstance(value, int) and value.bit_length() > 256:  # Python refuses to print huge ints
        return f"(an int of {value.bit_length()} bits)"
    try:
        text = repr(value)
    except Exception:  # the repr of a user's class may raise anything
        text = f"(a {type(value).__name__})"
    return text if len(text) <= limit else text[: limit - 3] + "..."


_LONGEST_LINE: Final = 2000
"""The maximum length of a line of a message. Names of ops and files have any length."""


def _shortened(message: str) -> str:
    """Return a message with the middle of long lines omitted."""
    if len(message) <= _LONGEST_LINE:
        return message
    half = _LONGEST_LINE // 2
    return "\n".join(
        line if len(line) <= _LONGEST_LINE else f"{line[:half]} ... {line[-half:]}"
        for line in message.split("\n")
    )


class XlaError(UserError, Displayed):
    """The base of the errors that xlabuilder raises for invalid input.

    Attributes:
        op: the name of the operation, or None.
        shapes: the shapes of the operands by argument name, possibly empty.
        dimension: the number of the dimension at fault, or None.
        location: "file:line" of the caller, the nearest frame outside this library, or None;
            tracebacks show it below the message. In a notebook the file is the cell, such as
            "In[3]".
    """

    def __init__(
        self,
        message: str,
        *,
        op: str | None = None,
        shapes: Mapping[str, Any] | None = None,
        dimension: int | None = None,
    ) -> None:
        super().__init__(_shortened(message))
        self.op = op
        self.shapes = dict(shapes or {})
        self.dimension = dimension
        frame = caller_frame(sys._getframe(1))
        self.location = None
        if frame is not None:
            self.location = f"{shown_file(frame.f_code.co_filename)}:{frame.f_lineno}"
            self.add_note(f"at {self.location}")

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython prints; a notebook shows HTML, with a line below it."""
        lines = super()._render_traceback_()
        shell = sys.modules["IPython"].get_ipython()
        if not hasattr(shell, "kernel"):  # a terminal
            return lines
        # IPython calls this a second time, for its history of errors.
        if vars(self).get("_shown") != id(self.__traceback__):
            vars(self)["_shown"] = id(self.__traceback__)
            html = {"text/html": self._repr_html_(), "text/plain": "\n".join(lines)}
            shell.display_pub.publish(html)
        return [f"{type(self).__name__}: {self}"]

    @property
    def rule(self) -> str:
        """The broken rule and the values that broke it: the message without op and fix."""
        return str(self).partition("\nfix: ")[0].removeprefix(f"{self.op}: ")

    @property
    def fix(self) -> str:
        """What to write instead; empty if the message has no fix."""
        return str(self).partition("\nfix: ")[2]

    def in_argument(self, op: str, name: str) -> Self:
        """Prefix the message with the names of the op and the argument, and return self."""
        self.args = (f"{op}: {name}: {self}",)
        self.op = op
        return self

    def renamed(self, op: str) -> Self:
        """Replace the op's name at the start of the message with `op`, and return self."""
        self.args = (f"{op}: {str(self).removeprefix(f'{self.op}: ')}",)
        self.op = op
        return self


E = TypeVar("E", bound=XlaError)


def error_of(kind: type[E], op: str, rule: str, fix: str = "", **facts: Any) -> E:
    """Return an error with the message `op: rule`, and the fix on a line of its own.

    Args:
        kind: the class of the error.
        op: the name of the function that the user called.
        rule: the rule that was broken, and the values that broke it.
        fix: an imperative sentence; empty if there is none.
        facts: other arguments of the class, such as `shapes`.
    """
    return kind(f"{op}: {rule}" + (f"\nfix: {fix}" if fix else ""), op=op, **facts)


class ShapeInferenceError(XlaError, ValueError):
    """The operand shapes or the attributes break a rule of the operation."""


class SignatureError(ShapeInferenceError):
    """The computation of an op (reducer, condition, body, branch) has the wrong signature."""


class OperandError(XlaError, TypeError):
    """An operand can't be converted to an XlaOp, or another argument has the wrong type."""


class ConstantError(XlaError, ValueError):
    """The element type can't represent a Python or NumPy value."""


class PrimitiveTypeError(XlaError, ValueError):
    """XLA has no primitive type for a name or a NumPy dtype."""


class BuilderError(XlaError, RuntimeError):
    """Invalid use of a builder, such as an operand of another builder or an op after build()."""


class UnknownNameError(XlaError, AttributeError):
    """`builder`, `lowering`, a builder or an op has no attribute of that name.

    The message contains what to write, or similar names.
    """


class ShapeTextError(XlaError, ValueError):
    """The text of a shape, layout or sharding is malformed at `position`."""

    def __init__(self, message: str, *, text: str, position: int, fix: str = "") -> None:
        start = max(position - _CONTEXT, 0) if len(text) > 2 * _CONTEXT else 0
        part = text[start : start + 2 * _CONTEXT]
        before = "..." if start else ""
        after = "..." if start + len(part) < len(text) else ""
        arrow = " " * (len(before) + position - start) + "^"
        shown = f"{message}\n  {before}{part}{after}\n  {arrow}"
        super().__init__(f"{shown}\nfix: {fix}" if fix else shown)
        self.text = text
        self.position = position

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are restored by a call with `args`, which does not fit `__init__` here.
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[XlaError], arguments: tuple[Any, ...]) -> XlaError:
    """Return an error without calling `__init__`, for pickle."""
    return kind.__new__(kind, *arguments)


def show_internal_frames(show: bool = True) -> None:
    """Print tracebacks with the frames of this library, or without.

    Without them, the last line of an uncaught error's traceback is that of the call of a public
    function. Exceptions that the library caught are not printed either. This concerns terminals,
    threads and IPython; ``error.__traceback__`` always has all frames.

    Args:
        show: whether to print the frames. If this function is not called,
            XLABUILDER_SHOW_INTERNAL_FRAMES=1 in the environment shows them.

    Raises:
        OperandError: `show` is not a bool.

    Example:
        >>> import builder as xb
        >>> xb.show_internal_frames()
        >>> xb.show_internal_frames(False)
    """
    if not isinstance(show, bool):
        rule = f"show must be True or False, got {brief(show)}"
        raise error_of(OperandError, "show_internal_frames", rule)
    show_frames(show)
