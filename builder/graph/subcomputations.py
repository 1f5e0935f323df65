"""Computations passed to ops: reducers, conditions, bodies, branches.

An op that applies a computation takes an XlaComputation or a Python callable. A callable is
recorded here, with the parameter shapes that the op implies:

- a function of this library (`xb.add`) and a `ReusableFunction` once per signature;
- every other callable each time it is passed.

A callable of the second kind may use values of the enclosing builder if the op supports captures
(while_, scan, conditional, call). These values are passed as additional arguments, because a
computation can use only its parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import update_wrapper
from sys import _getframe
from types import FrameType, FunctionType
from typing import Any, Final

import numpy as np

from builder.errors import (
    BuilderError,
    OperandError,
    SignatureError,
    XlaError,
    brief,
    error_of,
)
from builder.graph.calls import explained, is_of_call
from builder.graph.computation import XlaComputation
from builder.graph.foreign_values import RECORDING, Purpose, located
from builder.graph.recording import append, rollback_on_error, shared_attributes
from builder.graph.registry import OPERATIONS, order_of_arguments
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.support.arguments import is_function
from builder.support.caches import per_signature
from builder.support.frames import caller_frame, from_function, is_library_file
from builder.support.imports import extension
from builder.types.shape import (
    ProgramShape,
    Shape,
    ShapeLike,
    TupleShape,
    interned_program_shape,
    shape_argument,
)

REDUCTIONS: Final = {
    "all": "and_",
    "any": "or_",
    "max": "max",
    "min": "min",
    "prod": "mul",
    "sum": "add",
}
"""The op that each reduction of Python, NumPy and `builder.lib` applies."""


class Recorded:
    """A callable recorded into a builder of its own, which is not built yet.

    Attributes:
        builder: the nested builder.
        root: the op that the callable returned.
    """

    __slots__ = ("builder", "root")

    def __init__(self, builder: XlaBuilder, root: XlaOp) -> None:
        self.builder = builder
        self.root = root

    def captures(self) -> list[tuple[XlaOp, XlaOp]]:
        """Return for each captured value a pair of ops: in the enclosing and the nested builder."""
        captured = self.builder._captured
        return [pair for pair in captured.values() if pair[1].opcode == "captured"]

    def build(self) -> XlaComputation:
        """Build the nested builder, and return its computation."""
        return self.builder.build(self.root)


@per_signature
def _default_names(op: str, role: str) -> tuple[str, Purpose]:
    """Return the default name of a computation, and its description for messages."""
    text = role if role.startswith("branch ") else f"the {role}"
    return f"{op.rstrip('_')}_{role.replace(' ', '_')}", Purpose(op, f"{text} of {op}")


def _identifier(function: Any, default: str) -> str:
    name = getattr(function, "__name__", "")
    return name if isinstance(name, str) and name.isidentifier() else default


def _parameter_names(function: Any, count: int) -> Sequence[str]:
    """Return the names of a callable's `count` arguments; without such names "p0", "p1", ..."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is not None and code.co_argcount == count and not code.co_flags & 0x04:
        names: tuple[str, ...] = code.co_varnames[:count]
        if len(set(names)) == count:
            return names
    return [f"p{i}" for i in range(count)]


MAX_NESTED_CALLABLES: Final = 500
"""The maximum nesting depth of callables that are being recorded.

XLA can't compile computations nested this deep, and each level makes captures slower."""

_MANY_NESTED: Final = 50
"""From this nesting depth, a RecursionError is attributed to the nesting of callables."""


def _nested_too_deep(op: str, role: str, limit: str, depth: int) -> BuilderError:
    rule = f"callables recorded inside each other {limit}"
    fix = (
        "use xb.while_ instead of recursion, because a callable is recorded before any value "
        "exists that could end a recursion; or build inner computations first, and pass them"
    )
    return error_of(BuilderError, op, rule, fix, got=f"{role} at depth {depth}")


def record_callable(
    op: str,
    role: str,
    function: Callable[..., Any],
    shapes: Sequence[Shape],
    *,
    enclosing: XlaBuilder | None = None,
    pass_arguments: bool = True,
    names: Sequence[str] = (),
    purpose: Purpose | None = None,
) -> Recorded:
    """Call `function` with parameters of these shapes, and record its ops.

    Args:
        op, role: for messages: the op, and the argument that is the callable.
        function: takes one XlaOp for each shape; returns an XlaOp, or a sequence of them for a
            tuple.
        shapes: the parameters' shapes.
        enclosing: the builder whose values may be captured; None if captures are not allowed.
        pass_arguments: False to call `function` without arguments.
        names: unique names of the parameters; by default those of the function's arguments.
        purpose: a description of the callable for messages about values of other computations; by
            default its role.

    Raises:
        SignatureError: the callable does not take one argument for each shape.
        OperandError: the callable's result is not an XlaOp.
        BuilderError: callables that record each other nest too deep.
    """
    recording = RECORDING.builders
    depth = len(recording)
    if depth >= MAX_NESTED_CALLABLES:
        limit = f"may nest at most {MAX_NESTED_CALLABLES} deep"
        raise _nested_too_deep(op, role, limit, depth + 1)
    default_name, description = _default_names(op, role)
    builder = XlaBuilder(_identifier(function, default_name))
    builder._purpose = purpose or description
    builder._parent = enclosing
    names = names or _parameter_names(function, len(shapes))
    parameters = [
        builder._add_parameter(shape, names[number], number) for number, shape in enumerate(shapes)
    ]
    if enclosing is not None:
        builder._current_metadata = enclosing._current_metadata
        enclosing._child = builder
        enclosing._is_open = False
    recording.append(builder)
    try:
        try:
            result = function(*parameters) if pass_arguments else function()
        except RecursionError:
            if depth < _MANY_NESTED:
                raise
            limit = "must not reach Python's recursion limit"
            raise _nested_too_deep(op, role, limit, depth + 1) from None
        except TypeError as error:
            if is_of_call(error) and not _names_op(error):
                # Raised by the call itself, not inside: the callable's arguments do not match.
                passed = shapes if pass_arguments else ()
                raise _wrong_arguments(op, role, function, passed, error) from error
            _refuse_equivalents(op, role, function)
            if isinstance(error, XlaError) and is_library_function(function):
                _check_arity(op, role, function, shapes if pass_arguments else ())
            _explain_other_library(error)
            from_function(error)
            raise
        except XlaError as error:
            if is_library_function(function):  # the user called `op`, not this function
                _check_arity(op, role, function, shapes if pass_arguments else ())
                error._in_argument(op, role)
            _refuse_equivalents(op, role, function)
            raise
        except Exception as error:
            from_function(error)
            raise
        try:
            root = _as_root(op, role, builder, result)
        except RecursionError:
            rule = f"{role} returned tuples nested too deeply, or one that contains itself"
            raise error_of(OperandError, op, rule) from None
    finally:
        recording.pop()
        if enclosing is not None:
            enclosing._child = None
            enclosing._is_open = not enclosing.built
    return Recorded(builder, root)


def _wrong_arguments(
    op: str, role: str, function: Callable[..., Any], shapes: Sequence[Shape], error: TypeError
) -> SignatureError:
    """Return the error for a callable that does not take one argument for each shape."""
    count = f"{len(shapes)} argument{'' if len(shapes) == 1 else 's'}"
    if not shapes:
        rule = f"{role} is called without arguments"
        fix = "pass the values as operands, or write a function without parameters that uses them"
        return error_of(SignatureError, op, rule, fix, got=f"a callable with parameters: {error}")
    passed, fix = f"{count} ({', '.join(map(str, shapes))})", f"write a function of {count}"
    if len(shapes) == 1 and isinstance(shapes[0], TupleShape) and shapes[0].elements:
        passed = f"1 argument, the tuple {shapes[0]}"
        elements = len(shapes[0].elements)
        names = ", ".join(_parameter_names(function, elements)) + "," * (elements == 1)
        fix = f"write a function of 1 argument that unpacks the tuple: {names} = argument"
    rule = f"{role} is called with {passed}"
    shapes_by_name = {f"argument {i}": shape for i, shape in enumerate(shapes)}
    return error_of(
        SignatureError,
        op,
        rule,
        fix,
        got=f"a callable that does not take them: {error}",
        shapes=shapes_by_name,
    )


def _check_arity(op: str, role: str, function: Any, shapes: Sequence[Shape]) -> None:
    """Raise SignatureError for a public op that does not have an operand for each shape.

    Otherwise the error is about the next parameter, such as `result_accuracy` of `exp`.
    """
    info = OPERATIONS.get(function.__name__)
    if info is None or info.function is not function or "*" in info.schema.operands:
        return
    names = info.schema.operands.split()
    parameters = inspect.signature(function).parameters.values()
    required = [p.name for p in parameters if p.default is p.empty]
    optional = [p for p in parameters if p.default is not p.empty and p.name in names]
    if len(required) <= len(shapes) <= len(required) + len(optional):
        return
    passed = f"{len(shapes)} argument{'' if len(shapes) == 1 else 's'}"
    listed = ", ".join(map(str, shapes))
    call = f"{info.name}({', '.join(required)})"
    rule = f"{role} is called with {passed} ({listed})"
    example = ", such as xb.add" if len(shapes) == 2 else ""
    fix = f"write a function of {passed}{example}"
    shapes_by_name = {f"argument {i}": shape for i, shape in enumerate(shapes)}
    raise error_of(SignatureError, op, rule, fix, got=call, shapes=shapes_by_name) from None


_OTHER_LIBRARY: Final = (
    "an XlaOp is recorded and not computed, so functions of other libraries refuse it\n"
    "fix: use the function of builder or builder.lib; lowering.apply(function, x) records a "
    "function of jax"
)


def _explain_other_library(error: TypeError) -> None:
    """Add to an error that another library raised for an XlaOp what to write."""
    is_explained = isinstance(error, XlaError) or _OTHER_LIBRARY in getattr(error, "__notes__", ())
    if not is_explained and _names_op(error):
        error.add_note(_OTHER_LIBRARY)


def _names_op(error: TypeError) -> bool:
    """Return whether another library's error is about an XlaOp."""
    return f"{XlaOp.__module__}.{XlaOp.__name__}" in str(error)


def _as_root(op: str, role: str, builder: XlaBuilder, result: Any) -> XlaOp:
    """Return the result of a callable as one op of `builder`; record a tuple for a sequence."""
    if type(result) is XlaOp and result.builder is builder:
        return result
    if isinstance(result, (list, tuple)):
        return record_tuple(builder, [_as_root(op, role, builder, part) for part in result])
    if type(result) is not XlaOp:
        fix = ""
        if result is None:
            fix = "return the resulting XlaOp from the function"
        elif isinstance(result, dict):
            fix = "return tuple(result.values())"
            if op == "computation":
                fix += ", or use lowering.jit, whose functions may return dicts"
        elif isinstance(result, (bool, int, float)):
            kind = "True" if isinstance(result, bool) else f"{brief(result)}, element_type"
            fix = f"return x.builder.constant({kind}), where x is an argument"
        rule = f"{role} must return an XlaOp, or several in a tuple"
        raise error_of(OperandError, op, rule, fix, got=brief(result))
    return builder._adopt(op, result)


def build_all(computations: Sequence[XlaComputation | Recorded]) -> tuple[XlaComputation, ...]:
    """Build the recorded callables among `computations`; none of them may capture values."""
    return tuple([c.build() if isinstance(c, Recorded) else c for c in computations])


_LIBRARY_FUNCTIONS: Final[set[FunctionType]] = set()


def _refuse_equivalents(op: str, role: str, function: object) -> None:
    """Raise OperandError for a function of Python or NumPy that has an equivalent op."""
    name = str(getattr(function, "__name__", ""))
    meant = REDUCTIONS.get(name) if getattr(function, "__module__", "") in _MODULES else None
    if isinstance(function, np.ufunc):
        meant = next((info.name for info in OPERATIONS.values() if info.opcode == name), None)
    if meant is not None:
        rule = f"{role} must be a function of XlaOps"
        raise error_of(OperandError, op, rule, f"pass xb.{meant}", got=brief(function)) from None


_MODULES: Final = ("builtins", "numpy")
"""The modules whose functions users pass as reducers."""


def is_library_function(computation: Any) -> bool:
    """Return whether `computation` is a function of this library, such as xb.add."""
    if type(computation) is not FunctionType:
        return False
    # This runs for every op with a reducer, so known functions are looked up in a set.
    if computation in _LIBRARY_FUNCTIONS:
        return True
    # `__module__` is not used, because `functools.wraps` copies it to a user's function.
    function = inspect.unwrap(computation)  # without the wrapper of `op`
    is_ours = (
        is_library_file(computation.__code__.co_filename)
        and function.__globals__.get(function.__name__) is computation
    )
    if is_ours:
        _LIBRARY_FUNCTIONS.add(computation)
    return is_ours


def available_computation(
    op: str, role: str, computation: Any, shapes: tuple[Shape, ...]
) -> XlaComputation | None:
    """Return the computation, or None if only a call of user code can provide it.

    A user's callable may record ops in other builders, so an op that calls it must roll back if
    the call fails.
    """
    if isinstance(computation, XlaComputation):
        return computation
    if type(computation) is ReusableFunction:
        return computation._cached(shapes)
    if is_library_function(computation):
        return _library_computation(op, role, computation, shapes, True)
    return None


def _need_callable(op: str, role: str, computation: Any) -> Callable[..., Any]:
    if not is_function(computation):
        rule = f"{role} must be an XlaComputation or a callable"
        order = order_of_arguments(op)
        fix = order or "pass a function of XlaOps, such as xb.add or a lambda"
        raise error_of(OperandError, op, rule, fix, got=brief(computation))
    function: Callable[..., Any] = computation
    return function


def computation_or_recorded(
    op: str,
    role: str,
    computation: XlaComputation | Callable[..., Any],
    shapes: tuple[Shape, ...],
    enclosing: XlaBuilder,
    pass_arguments: bool = True,
    *,
    will_widen: bool = False,
) -> XlaComputation | Recorded:
    """Return the computation, or the recorded callable, for an op that allows captures.

    A function of this library, such as `xb.add`, is recorded anew inside a ``with`` block that sets
    frontend attributes or a sharding, because these apply to the function's ops.

    Args:
        op, role: for messages: the op, and the argument that is the computation.
        computation: an XlaComputation or a callable.
        shapes: the parameters' shapes.
        enclosing: the builder whose values may be captured.
        pass_arguments: False to call a callable without arguments.
        will_widen: whether the caller will add parameters to the computation, which must then be
            recorded anew.

    Raises:
        OperandError: `computation` is neither a computation nor callable.
    """
    if isinstance(computation, XlaComputation):
        return computation
    if type(computation) is ReusableFunction:
        with rollback_on_error(enclosing):
            return computation._computation_for(op, role, shapes, pass_arguments)
    function = _need_callable(op, role, computation)
    has_metadata = enclosing._current_metadata is not None
    if not (will_widen or has_metadata) and is_library_function(computation):
        return _library_computation(op, role, computation, shapes, pass_arguments)
    return record_callable(
        op, role, function, shapes, enclosing=enclosing, pass_arguments=pass_arguments
    )


def as_computation(
    op: str, role: str, computation: XlaComputation | Callable[..., Any], shapes: Sequence[Shape]
) -> XlaComputation:
    """Return the computation to apply, for an op that does not allow captures.

    Args:
        op, role: for messages: the op, and the argument that is the computation.
        computation: an XlaComputation, which is returned, or a callable to record.
        shapes: the parameter shapes that the op implies.

    Raises:
        OperandError: `computation` is neither a computation nor callable.
    """
    shapes = tuple(shapes)
    available = available_computation(op, role, computation, shapes)
    if available is not None:
        return available
    if type(computation) is ReusableFunction:
        return computation._computation_for(op, role, shapes)
    function = _need_callable(op, role, computation)
    return record_callable(op, role, function, shapes).build()


def _computation_for_all(
    op: str,
    role: str,
    function: Callable[..., Any],
    shapes: tuple[Shape, ...],
    pass_arguments: bool,
    name: str = "",
) -> XlaComputation:
    """Record a callable, and return the computation that all later uses share.

    `name` is the name of a function of ``@xb.computation``, or "" for a library function.

    Ops recorded at the line of the first use (the parameters, and every op of a library function)
    get no source line, so that the computation does not depend on which use is first.
    """
    user = caller_frame(_getframe(1))
    text = f"{name!r}, a function of @xb.computation,"
    purpose = Purpose(name, text) if name else None
    recorded = record_callable(
        op, role, function, shapes, pass_arguments=pass_arguments, purpose=purpose
    )
    if user is not None:
        _forget_line(recorded.builder.ops, user)
    recorded.builder.name = name or recorded.builder.name
    return recorded.build()


def _forget_line(ops: Iterable[XlaOp], user: FrameType) -> None:
    """Remove the source line from each op that was recorded at it, those of bodies included."""
    code, lasti = user.f_code, user.f_lasti
    pending = [*ops]
    while pending:
        op = pending.pop()
        # The body of an op of another line has other lines, too.
        if op._code is code and op._lasti == lasti:
            op._code, op._lasti = None, 0
            for computation in op.called_computations:
                pending += computation.ops


_library_computation = per_signature(_computation_for_all)


_MOST_SIGNATURES: Final = 4096


class ReusableFunction:
    """A function of XlaOps that is recorded once per signature: ``@xb.computation``.

    Every op that applies a computation (`reduce`, `while_`, `conditional`, `map`, `sort`, ...)
    accepts it as a callable. Called with XlaOps, it records a `call`. All uses with parameters of
    the same shapes, including nested tuples, share one XlaComputation, which is lowered to one
    function.

    As with jax.jit, the Python code runs once per signature: it uses the values that globals and
    captured variables have at that time. It can't use XlaOps other than its arguments. Frontend
    attributes and shardings set where it is used apply to the op that applies it; those set inside
    the function apply to its ops. At most 4096 signatures of a function are stored; the next one
    discards all of them.

    Attributes:
        __wrapped__: the decorated function; pass it to record each use anew.

    Example:
        >>> import builder as xb
        >>> @xb.computation
        ... def relu(x):
        ...     return xb.max(x, 0.0)
        >>> b = xb.XlaBuilder("network")
        >>> x, y = b.parameter(xb.f32[4]), b.parameter(xb.f32[4])
        >>> relu(x).called_computations == relu(y).called_computations
        True
        >>> xb.map([x], relu).called_computations
        (<XlaComputation 'relu' (x: f32[]) -> f32[], 3 ops>,)
        >>> relu
        <ReusableFunction 'relu', 2 signatures>
    """

    __wrapped__: Callable[..., Any]

    def __init__(
        self,
        function: Callable[..., Any],
        finish: Callable[[XlaComputation], XlaComputation] | None = None,
    ) -> None:
        """Wrap a function; `finish` is applied to each computation that is recorded."""
        update_wrapper(self, function, updated=())
        self.name = _identifier(function, "function")
        self._finish = finish
        self._recorded: dict[tuple[tuple[Shape, ...], bool], XlaComputation] = {}

    @explained
    def __call__(self, *operands: XlaOp | Sequence[Any], **named: object) -> XlaOp:
        """Record a call with these operands in the builder that they belong to.

        Args:
            operands: one for each parameter; a sequence of ops, which may be nested, is passed
                as a tuple.
            named: must be empty, because operands are positional.

        Returns:
            The result of the call; a tuple if the function returns several ops.

        Raises:
            OperandError: an operand is not an XlaOp, or there is none.
            SignatureError: the function does not take that number of arguments.
            BuilderError: operands belong to different builders, or the function uses other XlaOps.

        Example:
            >>> import builder as xb
            >>> @xb.computation
            ... def swap(pair):
            ...     first, second = pair
            ...     return second, first
            >>> b = xb.XlaBuilder()
            >>> swap((b.parameter(xb.f32[4]), b.parameter(xb.s32[()]))).shape
            (s32[], f32[4])
        """
        if named:
            rule = "operands must be positional"
            raise error_of(OperandError, self.name, rule, got=f"{', '.join(named)} by name")
        return extension("builder.ops.control_flow", "call_reusable", self, operands)

    @explained
    def computation(self, *shapes: ShapeLike) -> XlaComputation:
        """Return the computation for parameters of these shapes, recording it if needed.

        Args:
            shapes: the shape of each parameter; see `XlaBuilder.parameter` for layouts.

        Raises:
            SignatureError: the function does not take that number of arguments.
            OperandError: the function's result is not an XlaOp, or an element of `shapes` is not a
                shape.

        Example:
            >>> import builder as xb
            >>> @xb.computation
            ... def relu(x):
            ...     return xb.max(x, 0.0)
            >>> relu.computation(xb.f32[4]).program_shape
            (x: f32[4]) -> f32[4]
            >>> relu.computation("f32[4]") is relu.computation(xb.f32[4])
            True
        """
        arguments = [shape_argument(self.name, f"shape {i}", s) for i, s in enumerate(shapes)]
        return self._computation_for(self.name, "function", tuple(arguments))

    def _cached(self, shapes: tuple[Shape, ...]) -> XlaComputation | None:
        """Return the computation of a signature, or None if it is not recorded yet."""
        return self._recorded.get((shapes, True))

    def _computation_for(
        self, op: str, role: str, shapes: tuple[Shape, ...], pass_arguments: bool = True
    ) -> XlaComputation:
        """Return the computation of a signature, recording it if needed.

        The arguments and errors are those of `record_callable`.
        """
        key = shapes, pass_arguments
        cached = self._recorded.get(key)
        if cached is not None:
            return cached
        computation = _computation_for_all(
            op, role, self.__wrapped__, shapes, pass_arguments, self.name
        )
        if self._finish is not None:
            computation = self._finish(computation)
        if len(self._recorded) >= _MOST_SIGNATURES:
            self._recorded.clear()
        # Another thread may have recorded the signature meanwhile; the first computation is kept.
        return self._recorded.setdefault(key, computation)

    def __repr__(self) -> str:
        count = len(self._recorded)
        return f"<ReusableFunction {self.name!r}, {count} signature{'' if count == 1 else 's'}>"


def signature(computation: XlaComputation | Recorded) -> ProgramShape:
    """Return the signature of a computation, or of a callable without its captures."""
    if isinstance(computation, XlaComputation):
        return computation.signature
    parameters = computation.builder.parameters
    ordered = [parameters[number] for number in range(len(parameters))]
    return interned_program_shape(
        tuple([p.shape for p in ordered]),
        computation.root.shape,
        tuple([p.name or "" for p in ordered]),
    )


def lift_captures(
    computations: Sequence[XlaComputation | Recorded], *, give_back: Sequence[bool]
) -> tuple[list[XlaComputation], list[XlaOp]]:
    """Build computations that have one parameter each; at least one captures values.

    The captured values become arguments of every computation: `T -> S` becomes
    `(T, captured...) -> S`, or `(T, captured...) -> (S, captured...)` if the computation's
    `give_back` is true (the body of a loop).

    Returns:
        The computations, and the captured ops of the enclosing builder.
    """
    all_recorded = [c if isinstance(c, Recorded) else _call_of(c) for c in computations]
    outers = {id(outer): outer for r in all_recorded for outer, _ in r.captures()}
    captured = list(outers.values())
    indices = {key: index for index, key in enumerate(outers, 1)}
    lifted: list[XlaComputation] = []
    for recorded, gives_back in zip(all_recorded, give_back, strict=True):
        parameter = _widen_parameter(recorded, captured, indices)
        if gives_back:
            values = [record_tuple_element(parameter, i + 1) for i in range(len(captured))]
            recorded.root = record_tuple(recorded.builder, [recorded.root, *values])
        lifted.append(recorded.build())
    return lifted, captured


def _call_of(computation: XlaComputation) -> Recorded:
    """Return a recorded callable that only calls `computation`; its parameter can be widened."""
    builder = XlaBuilder(f"{computation.name}_closed")
    shape = computation.signature
    argument = builder.parameter(shape.parameters[0], shape.parameter_names[0])
    root = append(builder, "call", shape.result, (argument,), {"to_apply": computation})
    return Recorded(builder, root)


def _widen_parameter(recorded: Recorded, captured: list[XlaOp], indices: dict[int, int]) -> XlaOp:
    """Replace the parameter by a new one that is a tuple, and return the new parameter.

    The elements of the tuple are the old parameter and the captured values.
    """
    builder = recorded.builder
    old = builder.parameters[0]
    shape = TupleShape((old.shape, *(op.shape for op in captured)))
    parameter = append(builder, "parameter", shape, (), {"number": 0})
    builder.ops.insert(0, builder.ops.pop())
    parameter._code, parameter._lasti, parameter.name = old._code, old._lasti, old.name
    builder.parameters[0] = parameter
    for number, op in enumerate(builder.ops):
        op.id = number
    captures = [(inner, indices[id(outer)]) for outer, inner in recorded.captures()]
    for op, index in [(old, 0), *captures]:
        op.opcode = "get_tuple_element"
        op.operands = (parameter,)
        op.attributes = {"index": index}
    old.name = None
    return parameter


def append_captures(recorded: Recorded) -> list[XlaOp]:
    """Turn the captures of a callable into additional parameters.

    Returns:
        The captured ops of the enclosing builder, in the order of the new parameters.
    """
    captures = recorded.captures()
    for index, (_, inner) in enumerate(captures):
        _become_parameter(inner, f"captured{index}")
    return [outer for outer, _ in captures]


def _become_parameter(captured: XlaOp, name: str) -> None:
    """Turn a captured op of a nested builder into the next parameter."""
    parameters = captured.builder.parameters
    captured.opcode = "parameter"
    captured.attributes = {"number": len(parameters)}
    captured.name = name
    parameters[len(parameters)] = captured


def carry_captures(recorded: Recorded) -> list[XlaOp]:
    """Turn the captures of a scan's computation into additional carries, which it does not change.

    A captured tuple becomes one carry for each array in it.

    Returns:
        The captured arrays of the enclosing builder, in the order of the carries.

    Raises:
        BuilderError: a captured value is or contains a token.
    """
    builder = recorded.builder
    count = len(builder.ops)
    outers: list[XlaOp] = []
    carries: list[XlaOp] = []

    def carry(outer: XlaOp, inner: XlaOp) -> None:
        if not outer.shape.is_array:
            rule = "the computation can use only arrays of the enclosing builder"
            fix = "use the token before or after the scan"
            got, shapes = f"\n  {located(outer)}", {"value": outer.shape}
            raise error_of(BuilderError, "scan", rule, fix, got=got, shapes=shapes)
        _become_parameter(inner, f"captured{len(outers)}")
        outers.append(outer)
        carries.append(inner)

    def carry_elements(outer: XlaOp, inner: XlaOp) -> None:
        """Turn `inner`, a captured tuple, into a tuple of carries."""
        assert isinstance(outer.shape, TupleShape)
        elements = []
        for index, shape in enumerate(outer.shape.elements):
            element = record_tuple_element(outer, index)
            elements.append(append(builder, "captured", shape))
            (carry_elements if isinstance(shape, TupleShape) else carry)(element, elements[-1])
        inner.opcode, inner.operands = "tuple", tuple(elements)

    for outer, inner in recorded.captures():
        (carry_elements if isinstance(outer.shape, TupleShape) else carry)(outer, inner)
    # The deepest elements of tuples were recorded last, and an op uses only earlier ones.
    builder.ops[:] = [*reversed(builder.ops[count:]), *builder.ops[:count]]
    for number, op in enumerate(builder.ops):
        op.id = number
    root = recorded.root
    results = [root]
    if isinstance(root.shape, TupleShape):
        results = [record_tuple_element(root, i) for i in range(len(root.shape.elements))]
    recorded.root = record_tuple(builder, [*results, *carries])
    return outers


def record_tuple(builder: XlaBuilder, parts: Sequence[XlaOp]) -> XlaOp:
    """Record a tuple in `builder`, which may be the builder of a callable."""
    return append(builder, "tuple", _tuple_shape(tuple([p.shape for p in parts])), tuple(parts))


_tuple_shape = per_signature(TupleShape)


def record_tuple_element(op: XlaOp, index: int) -> XlaOp:
    """Record element `index` of a tuple in the builder of `op`."""
    shape = op.shape
    assert isinstance(shape, TupleShape)
    attributes = shared_attributes(index=index)
    return append(op.builder, "get_tuple_element", shape.elements[index], (op,), attributes)
