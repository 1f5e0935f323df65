"""The errors that xlabuilder raises.

An error holds facts: the op, the argument at fault, the rule that was broken, the value, the
operand shapes, the fix. The message is composed of them when it is shown. Code that knows more,
such as the name of the function that the user called, changes a fact.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from types import FrameType
from typing import Any, Final, Self, TypeVar

from builder.support.display import Displayed
from builder.support.frames import (
    UserError,
    caller_frame,
    remove_internal_frames,
    show_frames,
    shown_file,
)

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


E = TypeVar("E", bound="XlaError")


class XlaError(UserError, Displayed):
    """The base of the errors that xlabuilder raises for invalid input.

    Args:
        rule: the rule that was broken.
        op: the name of the operation or function.
        argument: the argument at fault: its name, or its number.
        got: the values that broke the rule, or their text; "" if these are the operands.
        fix: what to write instead, an imperative sentence.
        shapes: the shapes of the operands by argument name.
        dimension: the number of the dimension at fault.
        context: what the message begins with; by default `op`.
        lists_shapes: whether the message lists `shapes`.

    Attributes:
        rule: the rule that was broken.
        op: the name of the operation, or None.
        argument: the name or the number of the argument at fault, or None.
        got: the values that broke the rule, as text, or None.
        fix: what to write instead; empty if nothing is known.
        shapes: the shapes of the operands by argument name, possibly empty.
        dimension: the number of the dimension at fault, or None.
        context: what the message begins with, from the outside in, such as the names of a function
            of `builder.lib` and of the op that it records.
        location: "file:line" of the caller, the nearest frame outside this library, or None;
            tracebacks show it below the message. In a notebook the file is the cell, such as
            "In[3]".

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> try:
        ...     xb.rev(x, [2])
        ... except xb.XlaError as error:
        ...     print(error.op, error.dimension, error.shapes)
        rev 2 {'operand': f32[2,3]}
    """

    def __init__(
        self,
        rule: str,
        *,
        op: str | None = None,
        argument: str | int | None = None,
        got: object = None,
        fix: str | None = None,
        shapes: Mapping[str, Any] | None = None,
        dimension: int | None = None,
        context: tuple[str, ...] | None = None,
        lists_shapes: bool = False,
    ) -> None:
        super().__init__(rule)
        self.rule = rule
        self.op = op
        self.argument = argument
        self.got = None if got is None else str(got)
        self.fix = fix or ""
        self.shapes = dict(shapes or {})
        self.dimension = dimension
        self.context = context if context is not None else (op,) if op else ()
        self.lists_shapes = lists_shapes
        self._locate(caller_frame(sys._getframe(1)))

    def _locate(self, frame: FrameType | None) -> None:
        """Set the location to the line that a stack frame runs; None for an unknown line."""
        self.location: str | None = None
        self.__notes__ = []
        if frame is not None:
            self.location = f"{shown_file(frame.f_code.co_filename)}:{frame.f_lineno}"
            self.add_note(f"at {self.location}")

    def __str__(self) -> str:
        lines = [statement_of(self) + self._details()]
        if self.lists_shapes and self.shapes:
            lines.append(shapes_text(self.shapes))
        if self.fix:
            lines.append(f"fix: {self.fix}")
        return _shortened("\n".join(lines))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # By default an exception is restored by a call with `args`, which would note a location.
        return _restored, (type(self), self.args), self.__dict__

    def _details(self) -> str:
        """Return the lines between the statement and the operands, each after a newline."""
        return ""

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython prints; a notebook shows HTML, with a line below it."""
        shell = sys.modules["IPython"].get_ipython()
        remove_internal_frames(self)
        lines: list[str] = shell.InteractiveTB.structured_traceback(
            type(self), self, self.__traceback__
        )
        if not hasattr(shell, "kernel"):  # a terminal
            return lines
        # IPython calls this a second time, for its history of errors.
        if vars(self).get("_shown") != id(self.__traceback__):
            vars(self)["_shown"] = id(self.__traceback__)
            html = {"text/html": self._repr_html_(), "text/plain": "\n".join(lines)}
            shell.display_pub.publish(html)
        return [f"{type(self).__name__}: {self}"]

    def _in_call(self, op: str) -> Self:
        """Attribute the error to `op`, a function that called the one at fault; return self."""
        self.context = (op, *self.context)
        self.op = op
        return self

    def _in_argument(self, op: str, name: str) -> Self:
        """Attribute the error to the argument `name` of `op`, and return self."""
        self.context = (op, name, *self.context)
        self.op = op
        self.argument = name
        return self

    def _renamed(self, op: str) -> Self:
        """Replace the op's internal name by `op`, the name that the user called; return self."""
        inner = self.context[1:] if self.context[:1] == (self.op,) else self.context
        self.context = (op, *inner)
        self.op = op
        return self

    def _as_kind(self, kind: type[E], **facts: Any) -> E:
        """Return an error of another class with the facts of this one, or with those passed.

        Args:
            kind: the class.
            facts: arguments of the class, in place of the facts of this error.
        """
        rule, got, details = self.rule, self.got, self._details()
        if details:
            rule, got = (rule + details, None) if got is None else (rule, got + details)
        same = {
            "op": self.op,
            "argument": self.argument,
            "got": got,
            "fix": self.fix,
            "shapes": self.shapes,
            "dimension": self.dimension,
            "context": self.context,
            "lists_shapes": self.lists_shapes,
        }
        return kind(facts.pop("rule", rule), **{**same, **facts})


def error_of(kind: type[E], op: str, rule: str, fix: str | None = "", **facts: Any) -> E:
    """Return ``kind(rule, op=op, fix=fix, **facts)``."""
    return kind(rule, op=op, fix=fix, **facts)


def statement_of(error: XlaError, without: Collection[str] = ()) -> str:
    """Return the first part of a message: the context, the rule, and the value.

    Args:
        error: the error.
        without: the names in the context to omit.
    """
    text = "".join([f"{name}: " for name in error.context if name not in without]) + error.rule
    if error.got is None:
        return text
    space = "" if error.got[:1] in ("", "\n") else " "
    return f"{text}, got{space}{error.got}"


def shapes_text(shapes: Mapping[str, Any]) -> str:
    """Return the lines "  name shape" that messages show for operands."""
    width = max((len(n) for n in shapes), default=0)
    return "\n".join(f"  {name:<{width}} {shape}" for name, shape in shapes.items())


class ShapeInferenceError(XlaError, ValueError):
    """The operand shapes or the attributes break a rule of the operation."""


class SignatureError(ShapeInferenceError):
    """The computation of an op (reducer, condition, body, branch) has the wrong signature."""


class OperandError(XlaError, TypeError):
    """An operand can't be converted to an XlaOp, or another argument has the wrong type."""


class ConstantError(XlaError, ValueError):
    """The element type can't represent a Python or NumPy value.

    Attributes:
        number: the Python number that the type can't represent, as text; "" for other errors.
        reason: why the type can't represent it.
    """

    def __init__(self, rule: str, *, number: str = "", reason: str = "", **facts: Any) -> None:
        super().__init__(rule, **facts)
        self.number = number
        self.reason = reason


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

    def __init__(self, rule: str, *, text: str, position: int, **facts: Any) -> None:
        super().__init__(rule, **facts)
        self.text = text
        self.position = position

    def _details(self) -> str:
        text, position = self.text, self.position
        start = max(position - _CONTEXT, 0) if len(text) > 2 * _CONTEXT else 0
        part = text[start : start + 2 * _CONTEXT]
        before = "..." if start else ""
        after = "..." if start + len(part) < len(text) else ""
        arrow = " " * (len(before) + position - start) + "^"
        return f"\n  {before}{part}{after}\n  {arrow}"


def _restored(kind: type[XlaError], arguments: tuple[Any, ...]) -> XlaError:
    """Return an error without calling `__init__`, for pickle."""
    return kind.__new__(kind, *arguments)


def show_internal_frames(show: bool = True) -> None:
    """Keep the frames of this library in the tracebacks of errors, or remove them.

    By default an error that leaves a public function has no frames of the library, or those of the
    few functions that do not remove them. All frames help to debug the library itself.

    Args:
        show: whether to keep the frames. If this function is not called,
            XLABUILDER_SHOW_INTERNAL_FRAMES=1 in the environment keeps them.

    Raises:
        OperandError: `show` is not a bool.

    Example:
        >>> import builder as xb
        >>> xb.show_internal_frames()
        >>> xb.show_internal_frames(False)
    """
    if not isinstance(show, bool):
        rule = "show must be True or False"
        raise error_of(OperandError, "show_internal_frames", rule, got=brief(show))
    show_frames(show)
