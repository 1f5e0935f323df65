"""Reading XLA's short texts, of shapes, layouts and shardings, token by token or sign by sign."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from builder.errors import ShapeTextError, brief

__all__ = ["TextReader", "outside_quotes"]

_TOKENS: Final = re.compile(
    r"(?:\s|/\*.*?\*/)*+(?:([A-Za-z_][A-Za-z0-9_]*)|(<=)|(\d+)|(\S))", re.DOTALL
)
"""XLA counts the elements of long tuples in comments: `(f32[], ..., /*index=5*/f32[])`.

What is passed over is so for good (`*+`): many comments at the end could be taken as one in very
many ways."""

_GREATEST: Final = 2**63 - 1


class TextReader:
    """Stands at one token of a text: a name, a number, "<=" or a single sign; "" is the end.

    Attributes:
        text: the whole text.
        what: what it is the text of, as errors call it: "shape text".
        token: the token that is read next.
        start: its position in the text.
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
        """Goes on to the next token; gives the one that was stood at."""
        previous = self.token
        match = _TOKENS.match(self.text, self._next)
        if match is None:
            self.start, self.token = len(self.text), ""
        else:
            group = match.lastindex or 0
            self.start, self.token = match.start(group), match.group(group)
            self._next = match.end()
        return previous

    def fault(self, message: str, position: int | None = None) -> ShapeTextError:
        """The error that says `message` of what stands at `position`, or at the token."""
        at = self.start if position is None else position
        return ShapeTextError(f"{self.what}: {message}", text=self.text, position=at)

    def fail(self, expected: str) -> ShapeTextError:
        """The error of a token that is not what was expected."""
        got = brief(self.token) if self.token else "the end"
        return self.fault(f"expected {expected}, got {got} at position {self.start}")

    def expect(self, token: str) -> None:
        """Goes on past `token`, which must stand here."""
        if self.token != token:
            raise self.fail(repr(token))
        self.advance()

    def end(self) -> None:
        """Checks that nothing follows."""
        if self.token:
            raise self.fail(f"the end of the {self.what.removesuffix(' text')}")

    def number(self, what: str) -> int:
        """A whole number of at most 63 bits."""
        if not (self.token.isdecimal() and self.token.isascii()):
            raise self.fail(what)
        start, digits = self.start, self.advance()
        # Python reads no more than 4300 digits, so their number is looked at first.
        value = int(digits) if len(digits) < 4000 else _GREATEST + 1
        if value > _GREATEST:
            raise self.fault(f"{what} must fit 63 bits, got {len(digits)} digits", start)
        return value

    def numbers(self, close: str, what: str) -> list[int]:
        """Numbers with commas between them, up to and past the sign `close`."""
        values: list[int] = []
        while self.token != close:
            if values:
                self.expect(",")
            values.append(self.number(what))
        self.advance()
        return values


def outside_quotes(text: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """The positions and signs of a text, from `start` on, that stand in no quotes.

    A quote that is not closed reaches to the end. The quotes themselves are left out.

    Example:
        >>> list(outside_quotes('{"a,b"}'))
        [(0, '{'), (6, '}')]
    """
    quote = ""
    escaped = False
    for position in range(start, len(text)):
        sign = text[position]
        if escaped:
            escaped = False
        elif quote:
            escaped = sign == "\\"
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        else:
            yield position, sign
