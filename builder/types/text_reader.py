"""A tokenizer for XLA's short texts: shapes, layouts and shardings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from builder.errors import ShapeInferenceError, ShapeTextError, brief

_TOKENS: Final = re.compile(
    r"(?:\s|/\*.*?\*/)*+(?:([A-Za-z_][A-Za-z0-9_]*)|(<=)|(\d+)|(\S))", re.DOTALL
)
"""A token after white space and comments: a name, "<=", a number or one other character.

XLA numbers the elements of long tuples in comments: `(f32[], ..., /*index=5*/f32[])`.

The possessive `*+` prevents exponential backtracking over many comments."""

_MAX_NUMBER: Final = 2**63 - 1


class TextReader:
    """Reads a text token by token: a name, a number, "<=", any other character, or "" at the end.

    Attributes:
        text: the complete text.
        what: the kind of text, for error messages: "shape text".
        token: the current token.
        start: the position of the current token.
    """

    __slots__ = ("_next", "start", "text", "token", "what")

    def __init__(self, text: str, what: str) -> None:
        self.text = text
        self.what = what
        self._next = 0
        self.start = 0
        self.token = ""
        self.advance()

    def advance(self) -> str:
        """Move to the next token, and return the previous one."""
        previous = self.token
        match = _TOKENS.match(self.text, self._next)
        if match is None:
            self.start, self.token = len(self.text), ""
        else:
            group = match.lastindex or 0
            self.start, self.token = match.start(group), match.group(group)
            self._next = match.end()
        return previous

    def fault(
        self,
        message: str,
        position: int | None = None,
        fix: str = "",
        got: str | None = None,
    ) -> ShapeTextError:
        """Return an error at `position`, by default at the current token."""
        at = self.start if position is None else position
        return ShapeTextError(
            message, context=(self.what,), got=got, text=self.text, position=at, fix=fix
        )

    def fail(self, expected: str, fix: str = "") -> ShapeTextError:
        """Return the error for an unexpected token."""
        got = brief(self.token) if self.token else "the end"
        got = f"{got} at position {self.start}"
        return self.fault(f"expected {expected}", fix=fix, got=got)

    @contextmanager
    def errors_at(self, position: int) -> Iterator[None]:
        """Convert a ShapeInferenceError in the `with` block to a ShapeTextError at `position`."""
        try:
            yield
        except ShapeInferenceError as error:
            raise error._as_kind(ShapeTextError, text=self.text, position=position) from None

    def expect(self, token: str) -> None:
        """Move past `token`; raise if the current token is another one."""
        if self.token != token:
            raise self.fail(repr(token))
        self.advance()

    def end(self) -> None:
        """Raise unless the text ends here."""
        if self.token:
            raise self.fail(f"the end of the {self.what.removesuffix(' text')}")

    def number(self, what: str) -> int:
        """Read a non-negative integer of at most 63 bits."""
        if not (self.token.isdecimal() and self.token.isascii()):
            raise self.fail(what)
        start, digits = self.start, self.advance()
        # Python's int() refuses more than 4300 digits with an error of its own.
        value = int(digits) if len(digits) < 4000 else _MAX_NUMBER + 1
        if value > _MAX_NUMBER:
            raise self.fault(f"{what} must fit 63 bits", start, got=f"{len(digits)} digits")
        return value

    def numbers(self, close: str, what: str) -> list[int]:
        """Read numbers separated by commas, up to and including the token `close`."""
        values: list[int] = []
        while self.token != close:
            if values:
                self.expect(",")
            values.append(self.number(what))
        self.advance()
        return values


def outside_quotes(text: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """Yield the positions and characters of a text that are not inside quotes.

    The quotes themselves are omitted. An unterminated quote extends to the end of the text.

    Args:
        text: the text.
        start: the position of the first character to read.

    Example:
        >>> list(outside_quotes('{"a,b"}'))
        [(0, '{'), (6, '}')]
    """
    quote = ""
    escaped = False
    for position in range(start, len(text)):
        character = text[position]
        if escaped:
            escaped = False
        elif quote:
            escaped = character == "\\"
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        else:
            yield position, character
