"""The table of library functions, and the decorator that adds a function to it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import Signature, signature
from typing import Any, Final, TypeVar, cast

from builder.errors import OperandError, XlaError, brief, error_of
from builder.graph.calls import explained
from builder.graph.inlined_calls import InlinedCall, LibraryCall, Operand, arrays_of
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.support.frames import remove_internal_frames

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

DIFFERENTIABLE: Final[dict[str, Signature]] = {}
"""The signatures of the functions with derivatives of their own, by name: see `has_derivative`."""


def errors_named(name: str) -> Callable[[F], F]:
    """Return a decorator that adds `name` to the errors of a function.

    The message of an op that the function records, such as "reduce: ...", becomes
    "softmax: reduce: ...".
    """

    def decorate(function: F) -> F:
        @wraps(function)
        def called(*arguments: Any, **named: Any) -> Any:
            try:
                return function(*arguments, **named)
            except Exception as error:
                if isinstance(error, XlaError):
                    if error.op != name:
                        error._in_call(name)
                    elif error.dimension is not None and not error.shapes:
                        _add_shapes(error, function, arguments, named)
                remove_internal_frames(error)
                raise

        return cast("F", called)

    return decorate


def _add_shapes(
    error: XlaError,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    named: dict[str, Any],
) -> None:
    """Add the shapes of the arguments to the error, unless its text contains a shape."""
    try:
        values = signature(function).bind(*arguments, **named).arguments
    except TypeError:  # the message is about the arguments
        return
    shapes = {key: value.shape for key, value in values.items() if type(value) is XlaOp}
    if shapes and not any(str(shape) in f"{error.rule} {error.got}" for shape in shapes.values()):
        error.shapes, error.lists_shapes = shapes, True


def _with_checked_builder(function: F) -> F:
    """Return a function whose first argument must be an XlaBuilder."""

    @wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        given = arguments[:1] or [named[name] for name in named if name == "builder"]
        if given and not isinstance(given[0], XlaBuilder):
            rule = "builder must be an XlaBuilder"
            fix = "pass the builder that records the result, for instance x.builder"
            error = error_of(OperandError, function.__name__, rule, fix, got=brief(given[0], 80))
            from builder.graph.corrections import correct, users_frame  # lazy: only errors need it

            correct(error, function, arguments, named, users_frame(sys._getframe()))
            raise error
        return function(*arguments, **named)

    return cast("F", called)


def noting_calls(name: str, function: F) -> F:
    """Return `function`, with its calls listed in the builder, because it has its own derivative.

    Args:
        name: the name of the derivative in `lowering`, which has the parameters of the function.
        function: a function of `FUNCTIONS`, or a part of one.
    """
    names = tuple(DIFFERENTIABLE.setdefault(name, signature(function)).parameters)

    @wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        result = function(*arguments, **named)
        results = arrays_of(result)
        if results:
            builder = results[0].builder
            values = dict(zip(names, arguments, strict=False)) | named
            operands: list[XlaOp] = []
            for key, value in values.items():
                if type(value) is XlaOp:
                    values[key] = Operand(len(operands))
                    operands.append(builder._adopt(name, value))
            call = InlinedCall(LibraryCall(name, values), tuple(operands), tuple(results))
            builder._inlined_calls.append(call)
        return result

    return cast("F", called)


def library_function(cpp_name: str = "", *, has_derivative: bool = False) -> Callable[[F], F]:
    """Add the decorated function to `FUNCTIONS`.

    The decorated function's errors begin with its name; see `errors_named`. An argument `builder`
    of type XlaBuilder is checked.

    Args:
        cpp_name: see `LibraryFunction`.
        has_derivative: whether `lowering` differentiates the function itself, not its ops; see
            `builder/graph/inlined_calls.py`.
    """

    def enter(function: F) -> F:
        name = function.__name__
        function = explained(function)
        if function.__annotations__.get("builder") == "XlaBuilder":
            function = _with_checked_builder(function)
        if has_derivative:
            function = noting_calls(name, function)
        called = errors_named(name)(function)
        FUNCTIONS[name] = LibraryFunction(called, function.__module__.split(".")[2], cpp_name)
        return called

    return enter
