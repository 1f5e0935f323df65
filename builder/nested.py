"""Computations given to ops: reducers, conditions, bodies, branches.

An op that applies a computation takes an XlaComputation or a Python callable. A callable is
recorded here, with the parameter shapes that the op implies. Where the op allows it (while_,
conditional, call), the callable may use values of the enclosing builder: they are captured, and
passed as further arguments, since a computation has nothing but its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from builder.computation import XlaComputation
from builder.errors import BuilderError, OperandError, SignatureError, shown
from builder.recording import append
from builder.shape import ProgramShape, Shape, TupleShape, interned_program_shape
from builder.shared_callables import Facts, facts_to_keep, found_again, is_own, keep
from builder.xla_builder import XlaBuilder
from builder.xla_op import XlaOp

__all__ = [
    "Recorded",
    "as_computation",
    "build_all",
    "close_over",
    "found_or_recorded",
    "is_own",
    "is_unmarked",
    "ready",
    "record_callable",
    "signature",
]


KeptAs = tuple[str, str, Callable[..., Any], tuple[Shape, ...], bool, Facts]


class Recorded:
    """A callable recorded into a builder of its own, not built yet: captures may be added.

    Attributes:
        builder: the nested builder.
        root: the op that the callable gave.
        kept_as: what the computation is kept by, for when the callable is given again.
    """

    __slots__ = ("builder", "kept_as", "root")

    def __init__(self, builder: XlaBuilder, root: XlaOp) -> None:
        self.builder = builder
        self.root = root
        self.kept_as: KeptAs | None = None

    def captures(self) -> list[tuple[XlaOp, XlaOp]]:
        """Pairs of an enclosing op and the op that stands for it inside."""
        captured = self.builder.captured
        return [pair for pair in captured.values() if pair[1].opcode == "captured"]


@lru_cache(maxsize=4096)
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

    Raises:
        SignatureError: the callable takes another number of arguments.
        OperandError: it gave something else than XlaOps.
    """
    fallback, purpose = _spoken(op, role)
    name = getattr(function, "__name__", "")
    builder = XlaBuilder(name if isinstance(name, str) and name.isidentifier() else fallback)
    builder.purpose = purpose
    builder.parent = enclosing
    names = names or _parameter_names(function, len(shapes))
    parameters = []
    for number, shape in enumerate(shapes):
        parameters.append(builder.add_parameter(shape, names[number], number))
    if enclosing is not None:
        builder.current_notes = enclosing.current_notes
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
        return tuple_of(builder, parts)
    if type(result) is not XlaOp:
        fix = ""
        if result is None:
            fix = "\nfix: return the result"
        elif isinstance(result, (bool, int, float)):
            kind = "True" if isinstance(result, bool) else f"{shown(result)}, element_type"
            fix = f"\nfix: return x.builder.constant({kind}), where x is an argument"
        raise OperandError(
            f"{op}: {role} must return an XlaOp, or several in a tuple, got {shown(result)}{fix}",
            op=op,
        )
    return builder.adopt(op, result)


def build(recorded: Recorded) -> XlaComputation:
    """Ends the recording of a callable and gives its computation."""
    computation = recorded.builder.build(recorded.root)
    if recorded.kept_as is not None:
        keep(*recorded.kept_as, computation)
    return computation


def build_all(ones: Sequence[XlaComputation | Recorded]) -> tuple[XlaComputation, ...]:
    """The computations, of which none captured anything."""
    return tuple([build(one) if isinstance(one, Recorded) else one for one in ones])


def found_or_recorded(
    op: str,
    role: str,
    computation: XlaComputation | Callable[..., Any],
    shapes: tuple[Shape, ...],
    enclosing: XlaBuilder,
    pass_arguments: bool = True,
    *,
    may_be_found: bool = True,
    may_be_kept: bool = True,
) -> XlaComputation | Recorded:
    """The computation itself, the one that a callable gave before, or the callable recorded.

    For ops whose callables may capture values of the enclosing builder. One that did is recorded
    each time, and so is one that takes frontend attributes or a sharding over.

    Args:
        op, role: for messages: which op, which of its arguments.
        computation: an XlaComputation or a callable.
        shapes: the parameters' shapes.
        enclosing: the builder whose values may be captured.
        pass_arguments: false to call a callable without arguments all the same.
        may_be_found: false where it is known that a callable did not give one before.
        may_be_kept: false where what it gives is for this once.

    Raises:
        OperandError: neither a computation nor callable.
    """
    if isinstance(computation, XlaComputation):
        return computation
    if not callable(computation):
        raise OperandError(
            f"{op}: {role} must be an XlaComputation or a callable, got {shown(computation)}\n"
            f"fix: give a function of XlaOps, such as xb.neg or a lambda",
            op=op,
        )
    facts = None
    if may_be_kept and is_unmarked(enclosing):
        if may_be_found:
            found = found_again(op, role, computation, shapes, pass_arguments)
            if found is not None:
                return found
        facts = facts_to_keep(op, role, computation, shapes, pass_arguments)
    recorded = record_callable(
        op, role, computation, shapes, enclosing=enclosing, pass_arguments=pass_arguments
    )
    if facts is not None and not recorded.builder.captured:
        recorded.kept_as = op, role, computation, shapes, pass_arguments, facts
    return recorded


def is_unmarked(builder: XlaBuilder) -> bool:
    """Whether ops recorded now get neither frontend attributes nor a sharding."""
    return builder.current_notes is None


def ready(
    op: str, role: str, computation: Any, shapes: tuple[Shape, ...]
) -> XlaComputation | Callable[..., Any] | None:
    """What `as_computation` gives without calling a user's callable; None if it has to.

    A callable may record where it should not, and ops that call one take that back on errors.
    """
    if type(computation) is XlaComputation or is_own(computation):
        return computation  # type: ignore[no-any-return]  # one of the two
    return found_again(op, role, computation, shapes)


def as_computation(
    op: str,
    role: str,
    computation: XlaComputation | Callable[..., Any],
    shapes: Sequence[Shape],
) -> XlaComputation:
    """The computation that an op without captures applies.

    A callable that was given before, and must give the same again, is not called:
    `builder.shared_callables` says which ones are.

    Args:
        op, role: for messages: which op, which of its arguments.
        computation: an XlaComputation, taken as it is, or a callable to record.
        shapes: the parameter shapes that the op implies.

    Raises:
        OperandError: neither a computation nor callable.
    """
    if isinstance(computation, XlaComputation):
        return computation
    if not callable(computation):
        raise OperandError(
            f"{op}: {role} must be an XlaComputation or a callable, got {shown(computation)}\n"
            f"fix: give a function of XlaOps, such as xb.add or a lambda",
            op=op,
        )
    if is_own(computation):
        return _own_computation(op, role, computation, tuple(shapes))
    taken = tuple(shapes)
    found = found_again(op, role, computation, taken)
    if found is None:
        facts = facts_to_keep(op, role, computation, taken)
        recorded = record_callable(op, role, computation, shapes)
        if facts is not None:
            recorded.kept_as = op, role, computation, taken, True, facts
        found = build(recorded)
    return found


@lru_cache(maxsize=4096)
def _own_computation(
    op: str, role: str, function: Callable[..., Any], shapes: tuple[Shape, ...]
) -> XlaComputation:
    """One of the library's own functions (xb.add as a reducer), recorded once for a signature."""
    recorded = record_callable(op, role, function, shapes)
    for one in recorded.builder.ops:
        # Shared by all who use it, so it belongs to nobody's line.
        one.code, one.lasti = None, 0
    return build(recorded)


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


def close_over(
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
        recorded.kept_as = None  # of another signature than the callable
        whole = _widen_parameter(recorded, captured, position)
        if gives:
            kept = [element(whole, i + 1) for i in range(len(captured))]
            recorded.root = tuple_of(recorded.builder, [recorded.root, *kept])
        closed.append(build(recorded))
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


def tuple_of(builder: XlaBuilder, parts: Sequence[XlaOp]) -> XlaOp:
    """Records a tuple in `builder`, which may be one that is being recorded as a callable."""
    return append(builder, "tuple", _tuple_shape(tuple([p.shape for p in parts])), tuple(parts))


_tuple_shape = lru_cache(maxsize=4096)(TupleShape)


def element(op: XlaOp, index: int) -> XlaOp:
    """Records element `index` of a tuple in the builder of `op`."""
    shape = op.shape
    if not isinstance(shape, TupleShape):
        raise BuilderError(f"get_tuple_element: expected a tuple, got {shape}")
    return append(op.builder, "get_tuple_element", shape.elements[index], (op,), {"index": index})
