"""The errors of the old binding: XlaRuntimeError, and the TypeErrors of its argument lists."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from jax.errors import JaxRuntimeError

from builder.errors import OperandError, XlaError, brief

XlaRuntimeError: Final = JaxRuntimeError
"""The class of XLA's errors. jaxlib raises it for errors of a device, too."""


class StatusError(XlaError, JaxRuntimeError):  # type: ignore[misc]  # untyped in jax
    """An error with one of XLA's status codes, mostly INVALID_ARGUMENT: a broken rule.

    It is an XlaRuntimeError, as in jaxlib, and has the attributes of every `builder.XlaError`.
    """


class InvalidTypeError(StatusError, TypeError):
    """An argument has the wrong type, or an operand the wrong element type.

    jaxlib raises a TypeError in the first case, and an XlaRuntimeError in the second one. This is
    both.
    """


_STATUS: Final = re.compile(r"([A-Z][A-Z_]+): ")

P = ParamSpec("P")
R = TypeVar("R")


def _status(error: XlaError) -> str:
    """Return the status code of XLA's report; INVALID_ARGUMENT for errors of this library."""
    report = _STATUS.match(getattr(error, "detail", ""))
    return report[1] if report else "INVALID_ARGUMENT"


def reporting(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that raises the errors of the new API as those of the old binding.

    The errors name the function `name`. An OperandError, which is a TypeError, becomes an
    InvalidTypeError; any other error of this library becomes an StatusError. The functions
    call no functions of users, so other exceptions come from conversions of arguments of unexpected
    types, and become an InvalidTypeError too.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def called(*arguments: P.args, **named: P.kwargs) -> R:
            try:
                return function(*arguments, **named)
            except StatusError:
                raise
            except XlaError as error:
                kind = InvalidTypeError if isinstance(error, OperandError) else StatusError
                inner = list(error.context)
                for known in (name, error.op):
                    if inner[:1] == [known]:
                        inner.pop(0)
                context = (_status(error), name, *inner)
                raise error._as_kind(kind, op=name, context=context) from None
            except (TypeError, ValueError, LookupError, AttributeError) as error:
                # A conversion of an argument that has an unexpected type.
                given = [*map(brief, arguments), *(f"{k}={brief(v)}" for k, v in named.items())]
                rule = f"the arguments do not fit: {error}; got ({', '.join(given)})"
                context = ("INVALID_ARGUMENT", name)
                raise InvalidTypeError(rule, op=name, context=context) from error

        called.__name__ = called.__qualname__ = name
        return called

    return decorate
