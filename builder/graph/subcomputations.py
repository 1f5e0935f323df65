"""Computations given to ops: reducers, conditions, bodies, branches.

An op that applies a computation takes an XlaComputation or a Python callable. A callable is
recorded here, with the parameter shapes that the op implies:

- a function of this library (`xb.add`) and a `ReusableFunction` once per signature;
- every other callable each time it is passed.

Where the op allows it (while_, conditional, call), a callable of the last kind may use values of
the enclosing builder: they are captured, and passed as further arguments, since a computation has
nothing but its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from sys import _getframe
from types import FunctionType
from typing import Any, Final

from builder.errors import OperandError, SignatureError, brief
from builder.graph.computation import XlaComputation
from builder.graph.recording import append, rollback_on_error, shared_attributes
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.support.caller import INSIDE, caller_frame
from builder.support.extensions import extension
from builder.support.signatures import per_signature
from builder.types.shape import (
    ProgramShape,
    Shape,
    ShapeLike,
    TupleShape,
    interned_program_shape,
    shape_argument,
)

__all__ = [
    "Recorded",
    "ReusableFunction",
    "as_computation",
    "available_computation",
    "build_all",
    "computation_or_recorded",
    "has_no_metadata",
    "is_library_function",
    "lift_captures",
    "record_callable",
    "signature",
]


class Recorded:
    """A callable recorded into a builder of its own, not built yet: captures may be added.

    Attributes:
        builder: the nested builder.
        root: the op that the callable gave.
    """

    __slots__ = ("builder", "root")

    def __init__(self, builder: XlaBuilder, root: XlaOp) -> None:
        self.builder = builder
        self.root = root

    def captures(self) -> list[tuple[XlaOp, XlaOp]]:
        """Pairs of an enclosing op and the op that stands for it inside."""
        captured = self.builder.captured
        return [pair for pair in captured.values() if pair[1].opcode == "captured"]

    def build(self) -> XlaComputation:
        """Build the computation; nothing can be captured any more."""
        return self.builder.build(self.root)


@per_signature
def _spoken(op: str, role: str) -> tuple[str, str]:
    """The name of a computation without one of its own, and what messages call it."""
    return f"{op.rstrip('_')}_{role.replace(' ', '_')}", f"the {role} of {op}"


def _parameter_names(function: Any, count: int) -> Sequence[str]:
    """The callable's own argument names, where it has just as many positional ones."""
    code = getattr(function, "__code__", None)
    if code is not None and code.co_argcount == count and not code.co_flags & 0x04:
        names: tuple[str, ...] = code.co_varnames[:count]
        if len(set(names)) == count:
            return names
    return [f"p{i}" for i in range(count)]


def record_callable(
    op: str,
    role: str,
    function: Callable[..., Any],
    shapes: Sequence[Shape],
    *,
    enclosing: XlaBuilder | None = None,
    pass_arguments: bool = True,
    names: Sequence[str] = (),
    purpose: str = "",
) -> Recorded:
    """Records `function` called with parameters of these shapes.

    Args:
        op, role: for messages: which op, which of its arguments.
        function: takes one XlaOp for each shape; gives an XlaOp, or a sequence of them for a
            tuple.
        shapes: the parameters' shapes.
        enclosing: the builder whose values may be captured; None when none may.
        pass_arguments: false to call `function` without arguments all the same.
        names: of the parameters, all different; the function's own if there are none.
        purpose: the name of the callable in messages about values of other computations; the role
            of the op if it is empty.

    Raises:
        SignatureError: the callable takes another number of arguments.
        OperandError: it gave something else than XlaOps.
    """
    fallback, spoken = _spoken(op, role)
    name = getattr(function, "__name__", "")
    builder = XlaBuilder(name if isinstance(name, str) and name.isidentifier() else fallback)
    builder.purpose = purpose or spoken
    builder.parent = enclosing
    names = names or _parameter_names(function, len(shapes))
    parameters = []
    for number, shape in enumerate(shapes):
        parameters.append(builder.add_parameter(shape, names[number], number))
    if enclosing is not None:
        builder.current_metadata = enclosing.current_metadata
        enclosing.child = builder
        enclosing.is_open = False
    try:
        try:
            result = function(*parameters) if pass_arguments else function()
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                # Raised by the call itself, not inside: the callable's arguments do not match.
                given = ", ".join(str(s) for s in shapes)
                raise SignatureError(
                    f"{op}: {role} is called with {len(shapes)} arguments ({given}), "
                    f"got a callable that does not take them: {error}\n"
                    f"fix: write a function of {len(shapes)} arguments",
                    op=op,
                    shapes={f"argument {i}": s for i, s in enumerate(shapes)},
                ) from error
            raise
        try:
            is_own_op = type(result) is XlaOp and result.builder is builder
            root = result if is_own_op else _as_root(op, role, builder, result)
        except RecursionError:
            raise OperandError(
                f"{op}: {role} returned tuples nested too deep, or one that holds itself", op=op
            ) from None
    finally:
        if enclosing is not None:
            enclosing.child = None
            enclosing.is_open = not enclosing.built
    return Recorded(builder, root)


def _as_root(op: str, role: str, builder: XlaBuilder, result: Any) -> XlaOp:
    if isinstance(result, (list, tuple)):
        parts = [
            r if type(r) is XlaOp and r.builder is builder else _as_root(op, role, builder, r)
            for r in result
        ]
        return record_tuple(builder, parts)
    if type(result) is not XlaOp:
        fix = ""
        if result is None:
            fix = "\nfix: return the result"
        elif isinstance(result, (bool, int, float)):
            kind = "True" if isinstance(result, bool) else f"{brief(result)}, element_type"
            fix = f"\nfix: return x.builder.constant({kind}), where x is an argument"
        raise OperandError(
            f"{op}: {role} must return an XlaOp, or several in a tuple, got {brief(result)}{fix}",
            op=op,
        )
    return builder.adopt(op, result)


def build_all(
    computations: Sequence[XlaComputation | Recorded],
) -> tuple[XlaComputation, ...]:
    """Build the recorded callables among `computations`, none of which captures values."""
    return tuple([c.build() if isinstance(c, Recorded) else c for c in computations])


_OWN: Final[set[FunctionType]] = set()


def is_library_function(computation: Any) -> bool:
    """Return whether `computation` is a function of this library, such as xb.add."""
    # This runs for every op with a reducer, so functions found once are looked up in a set.
    return type(computation) is FunctionType and (computation in _OWN or _is_ours(computation))


def _is_ours(function: FunctionType) -> bool:
    """Return whether `function` is defined by this library at the top level of a module.

    `__module__` is not used: `functools.wraps` copies it to a user's function.
    """
    is_ours = (
        INSIDE[function.__code__.co_filename]
        and function.__globals__.get(function.__name__) is function
    )
    if is_ours:
        _OWN.add(function)
    return is_ours


def has_no_metadata(builder: XlaBuilder) -> bool:
    """Whether ops recorded now get neither frontend attributes nor a sharding."""
    return builder.current_metadata is None


def available_computation(
    op: str,
    role: str,
    computation: Any,
    shapes: tuple[Shape, ...],
    pass_arguments: bool = True,
) -> XlaComputation | None:
    """Return the computation if no callable of the user has to be called for it, else None.

    A callable may record where it should not; ops that call one undo that when it fails.
    """
    if isinstance(computation, XlaComputation):
        return computation
    if type(computation) is ReusableFunction:
        return computation.found(shapes, pass_arguments)
    if is_library_function(computation):
        return _own_computation(op, role, computation, shapes, pass_arguments)
    return None


def _need_callable(op: str, role: str, computation: Any) -> None:
    if not callable(computation):
        raise OperandError(
            f"{op}: {role} must be an XlaComputation or a callable, got {brief(computation)}\n"
            f"fix: give a function of XlaOps, such as xb.add or a lambda",
            op=op,
        )


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
    """Return the computation, or the callable recorded, for an op that allows captures.

    A function of this library is recorded anew where frontend attributes or a sharding are in
    force, because its ops carry them.

    Args:
        op, role: for messages: which op, which of its arguments.
        computation: an XlaComputation or a callable.
        shapes: the parameters' shapes.
        enclosing: the builder whose values may be captured.
        pass_arguments: false to call a callable without arguments all the same.
        will_widen: whether parameters will be added, so that a library function is recorded anew.

    Raises:
        OperandError: neither a computation nor callable.
    """
    if isinstance(computation, XlaComputation):
        return computation
    if type(computation) is ReusableFunction:
        with rollback_on_error(enclosing):
            return computation.recorded(op, role, shapes, pass_arguments)
    _need_callable(op, role, computation)
    if not will_widen and is_library_function(computation) and has_no_metadata(enclosing):
        return _own_computation(op, role, computation, shapes, pass_arguments)
    return record_callable(
        op, role, computation, shapes, enclosing=enclosing, pass_arguments=pass_arguments
    )


def as_computation(
    op: str,
    role: str,
    computation: XlaComputation | Callable[..., Any],
    shapes: Sequence[Shape],
) -> XlaComputation:
    """Return the computation that an op without captures applies.

    Args:
        op, role: for messages: which op, which of its arguments.
        computation: an XlaComputation, taken as it is, or a callable to record.
        shapes: the parameter shapes that the op implies.

    Raises:
        OperandError: neither a computation nor callable.
    """
    taken = tuple(shapes)
    found = available_computation(op, role, computation, taken)
    if found is not None:
        return found
    if type(computation) is ReusableFunction:
        return computation.recorded(op, role, taken)
    _need_callable(op, role, computation)
    return record_callable(op, role, computation, taken).build()


def _recorded_for_all(
    op: str,
    role: str,
    function: Callable[..., Any],
    shapes: tuple[Shape, ...],
    pass_arguments: bool,
    purpose: str = "",
) -> Recorded:
    """Record a callable that every later use shares.

    Ops recorded at the line of the first use (the parameters, and every op of a library function)
    get no source line, so that the computation does not depend on who uses it first.
    """
    user = caller_frame(_getframe(1))
    recorded = record_callable(
        op, role, function, shapes, pass_arguments=pass_arguments, purpose=purpose
    )
    if user is not None:
        code, lasti = user.f_code, user.f_lasti
        for one in recorded.builder.ops:
            if one.code is code and one.lasti == lasti:
                one.code, one.lasti = None, 0
    return recorded


@per_signature
def _own_computation(
    op: str,
    role: str,
    function: Callable[..., Any],
    shapes: tuple[Shape, ...],
    pass_arguments: bool,
) -> XlaComputation:
    """Return the computation of a function of this library, recorded once per signature."""
    return _recorded_for_all(op, role, function, shapes, pass_arguments).build()


_MOST_SIGNATURES: Final = 4096


class ReusableFunction:
    """A function of XlaOps that is recorded once per signature: ``@xb.computation``.

    Every op that applies a computation (`reduce`, `while_`, `conditional`, `map`, `sort`, ...)
    accepts it as a callable. Called with XlaOps, it records a `call`. All uses with parameters of
    the same shapes, tuples nested alike, share one XlaComputation, which lowering emits as one
    function.

    As with jax.jit, the Python code runs once per signature: a value that it reads besides its
    arguments is the value at that time. It can use no XlaOps besides its arguments. Frontend
    attributes and shardings in force where it is used mark the op that applies it; those set inside
    of it mark its ops. At most 4096 signatures of a function are stored; storing another one
    discards them.

    Attributes:
        __wrapped__: the decorated function, to be passed where each use shall be recorded anew.

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

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(self, function, updated=())
        own = getattr(function, "__name__", "")
        self.name = own if isinstance(own, str) and own.isidentifier() else "function"
        self._recorded: dict[tuple[tuple[Shape, ...], bool], XlaComputation] = {}

    def __call__(self, *operands: XlaOp | Sequence[Any], **named: object) -> XlaOp:
        """Record a call with these operands in the builder that they belong to.

        Args:
            operands: one for each parameter; a sequence of ops stands for their tuple, and may be
                nested.
            named: none; operands are given by position.

        Returns:
            The result; several results of the function are one tuple.

        Raises:
            OperandError: an operand is no XlaOp, or there is none.
            SignatureError: the function does not take as many.
            BuilderError: operands of different builders, or the function uses other XlaOps.

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
            raise OperandError(
                f"{self.name}: operands are given by position, got {', '.join(named)} by name",
                op=self.name,
            )
        op: XlaOp = extension("builder.ops.control_flow", "call_reusable")(self, operands)
        return op

    def computation(self, *shapes: ShapeLike) -> XlaComputation:
        """Return the computation for parameters of these shapes, recording it if needed.

        Args:
            shapes: the shape of each parameter; see `XlaBuilder.parameter` for layouts.

        Raises:
            SignatureError: the function does not take as many arguments.
            OperandError: it returns no XlaOp; or a shape is none.

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
        taken = [shape_argument(self.name, f"shape {i}", s) for i, s in enumerate(shapes)]
        return self.recorded(self.name, "function", tuple(taken))

    def found(self, shapes: tuple[Shape, ...], pass_arguments: bool) -> XlaComputation | None:
        """Return the computation of a signature that was recorded before."""
        return self._recorded.get((shapes, pass_arguments))

    def recorded(
        self, op: str, role: str, shapes: tuple[Shape, ...], pass_arguments: bool = True
    ) -> XlaComputation:
        """Return the computation of a signature; the arguments are those of `record_callable`."""
        key = shapes, pass_arguments
        found = self._recorded.get(key)
        if found is not None:
            return found
        purpose = f"{self.name!r}, a function of @xb.computation,"
        made = _recorded_for_all(op, role, self.__wrapped__, shapes, pass_arguments, purpose)
        made.builder.name = self.name
        if len(self._recorded) >= _MOST_SIGNATURES:
            self._recorded.clear()
        # Another thread may have recorded the same meanwhile: the first one stays.
        return self._recorded.setdefault(key, made.build())

    def __repr__(self) -> str:
        count = len(self._recorded)
        return f"<ReusableFunction {self.name!r}, {count} signature{'' if count == 1 else 's'}>"


def signature(one: XlaComputation | Recorded) -> ProgramShape:
    """Parameters and result of a computation, or of a callable as the user wrote it."""
    if isinstance(one, XlaComputation):
        return one.signature
    parameters = [one.builder.parameters[i] for i in range(len(one.builder.parameters))]
    return interned_program_shape(
        tuple([p.shape for p in parameters]),
        one.root.shape,
        tuple([p.name or "" for p in parameters]),
    )


def lift_captures(
    ones: Sequence[XlaComputation | Recorded], *, give_back: Sequence[bool]
) -> tuple[list[XlaComputation], list[XlaOp]]:
    """Builds computations of one parameter, of which any captured something.

    The captured values are turned into arguments: each `T -> S` becomes `(T, captured...) -> S`, or
    `(T, captured...) -> (S, captured...)` where `give_back` says so (the body of a loop).

    Returns:
        The computations, and the captured ops of the enclosing builder.
    """
    outers: dict[int, XlaOp] = {}
    for one in ones:
        if isinstance(one, Recorded):
            for outer, _ in one.captures():
                outers.setdefault(id(outer), outer)
    captured = list(outers.values())
    position = {key: index + 1 for index, key in enumerate(outers)}
    closed: list[XlaComputation] = []
    for one, gives in zip(ones, give_back, strict=True):
        recorded = one if isinstance(one, Recorded) else _call_of(one)
        whole = _widen_parameter(recorded, captured, position)
        if gives:
            kept = [record_tuple_element(whole, i + 1) for i in range(len(captured))]
            recorded.root = record_tuple(recorded.builder, [recorded.root, *kept])
        closed.append(recorded.build())
    return closed, captured


def _call_of(computation: XlaComputation) -> Recorded:
    """A callable that does nothing but call `computation`, to be widened in its stead."""
    builder = XlaBuilder(f"{computation.name}_closed")
    shape = computation.signature
    argument = builder.parameter(shape.parameters[0], shape.parameter_names[0])
    root = append(builder, "call", shape.result, (argument,), {"to_apply": computation})
    return Recorded(builder, root)


def _widen_parameter(one: Recorded, captured: list[XlaOp], position: dict[int, int]) -> XlaOp:
    """Puts a tuple parameter in front; the old parameter and the captures take its elements."""
    builder = one.builder
    old = builder.parameters[0]
    shape = TupleShape((old.shape, *(c.shape for c in captured)))
    whole = append(builder, "parameter", shape, (), {"number": 0})
    builder.ops.insert(0, builder.ops.pop())
    whole.code, whole.lasti, whole.name = old.code, old.lasti, old.name
    builder.parameters[0] = whole
    for index, op in enumerate(builder.ops):
        op.id = index
    taken = [(old, 0)] + [(inner, position[id(outer)]) for outer, inner in one.captures()]
    for inner, index in taken:
        inner.opcode = "get_tuple_element"
        inner.operands = (whole,)
        inner.attributes = {"index": index}
    old.name = None
    return whole


def append_captures(one: Recorded) -> list[XlaOp]:
    """Turns the captures of one callable into further parameters, after its own.

    Returns:
        The captured ops of the enclosing builder, in the order of the new parameters.
    """
    captured: list[XlaOp] = []
    builder = one.builder
    for outer, inner in one.captures():
        number = len(builder.parameters)
        inner.opcode = "parameter"
        inner.attributes = {"number": number}
        inner.name = f"captured{len(captured)}"
        builder.parameters[number] = inner
        captured.append(outer)
    return captured


def record_tuple(builder: XlaBuilder, parts: Sequence[XlaOp]) -> XlaOp:
    """Records a tuple in `builder`, which may be one that is being recorded as a callable."""
    return append(builder, "tuple", _tuple_shape(tuple([p.shape for p in parts])), tuple(parts))


_tuple_shape = per_signature(TupleShape)


def record_tuple_element(op: XlaOp, index: int) -> XlaOp:
    """Records element `index` of a tuple in the builder of `op`."""
    shape = op.shape
    assert isinstance(shape, TupleShape)
    attributes = shared_attributes(index=index)
    return append(op.builder, "get_tuple_element", shape.elements[index], (op,), attributes)
