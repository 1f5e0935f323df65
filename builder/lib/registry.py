"""The table of library functions, and the decorator that adds a function to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, TypeVar, cast

from builder.errors import XlaError

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class LibraryFunction:
    """A public function of the library.

    Attributes:
        function: the function.
        family: the name of its module in `builder.lib`.
        cpp_name: the name of XLA's function in `xla/hlo/builder/lib`, such as "ZerosLike"; empty
            if XLA has none.
    """

    function: Callable[..., Any]
    family: str
    cpp_name: str

    @property
    def name(self) -> str:
        """The name of the function, such as "zeros_like"."""
        return self.function.__name__


FUNCTIONS: Final[dict[str, LibraryFunction]] = {}
"""The public functions of all families by name. No two families have a function of one name."""


def library_function(cpp_name: str = "") -> Callable[[F], F]:
    """Add the decorated function to `FUNCTIONS`.

    The decorated function's errors name the function: the message of an op that it records, such
    as "reduce: ...", becomes "softmax: reduce: ...".

    Args:
        cpp_name: see `LibraryFunction`.
    """

    def enter(function: F) -> F:
        name = function.__name__

        @wraps(function)
        def called(*arguments: Any, **named: Any) -> Any:
            try:
                return function(*arguments, **named)
            except XlaError as error:
                if error.op != name:
                    error.args = (f"{name}: {error}",)
                    error.op = name
                raise

        FUNCTIONS[name] = LibraryFunction(called, function.__module__.split(".")[2], cpp_name)
        return cast("F", called)

    return enter
