"""replace: a computation recorded again, with some of its ops swapped by a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import CodeType, MappingProxyType
from typing import Any, Self

from builder.check import flag
from builder.errors import BuilderError, OperandError, ShapeInferenceError, brief
from builder.graph.computation import XlaComputation, called_in
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import NO_ATTRIBUTES, XlaOp, with_metadata
from builder.rewriting.copying import copied, merged

__all__ = ["Operands", "Replacement", "replace"]


class Operands(tuple[XlaOp, ...]):
    """The operands of an op that is asked for, as they are in the new computation.

    Attributes:
        builder: the builder that records the new computation.

    Example:
        >>> import builder as xb
        >>> @xb.computation(xb.f32[()])
        ... def double(x):
        ...     return x + x
        >>> def at_most_one(op, operands):
        ...     if op.opcode == "add":
        ...         return xb.min(operands.keep(), operands.builder.constant(1, xb.f32))
        >>> [op.opcode for op in double.replace(at_most_one).ops]
        ['parameter', 'add', 'constant', 'minimum']
    """

    builder: XlaBuilder
    kept: XlaOp | None = None
    _op: XlaOp
    _attributes: Mapping[str, Any]

    @classmethod
    def of(
        cls, op: XlaOp, operands: list[XlaOp], builder: XlaBuilder, attributes: Mapping[str, Any]
    ) -> Self:
        """These operands, for an op that would have these attributes if it were kept."""
        found = cls(operands)
        found.builder = builder
        found._op = op
        found._attributes = attributes
        return found

    def keep(self) -> XlaOp:
        """Records the op that is asked for on these operands, as it was; once, if asked twice."""
        if self.kept is None:
            self.kept = copied(self._op, tuple(self), self.builder, self._attributes)
        return self.kept


Replacement = Callable[[XlaOp, Operands], XlaOp | None]
"""What gives the op that stands in the place of another; None keeps it."""


def replace(
    computation: XlaComputation, function: Replacement, *, nested: bool = False
) -> XlaComputation:
    """The computation with some ops replaced; see `XlaComputation.replace`."""
    if not callable(function):
        raise OperandError(
            f"replace: function must be a callable on an op and its new operands, got "
            f"{brief(function)}\nfix: def function(op, operands): ..., that returns None to keep "
            f"the op",
            op="replace",
        )
    rewriter = _Rewriter(function)
    if flag("replace", "nested", nested):
        # Callees come before their callers, so what an op applies is there before the op.
        for one in computation.called_computations():
            new, is_changed = rewriter.rewritten(one)
            if is_changed:
                rewriter.instead[one] = new
    return rewriter.rewritten(computation)[0]


class _Rewriter:
    """One replacing, of a computation and of what it applies.

    Attributes:
        function: what the user gave.
        instead: for each applied computation that changed what stands in its place.
        attributes: the attributes that name such, by identity of the old ones: what was shared
            by many ops is shared again.
    """

    __slots__ = ("attributes", "function", "instead")

    def __init__(self, function: Replacement) -> None:
        self.function = function
        self.instead: dict[XlaComputation, XlaComputation] = {}
        self.attributes: dict[int, Mapping[str, Any]] = {}

    def rewritten(self, computation: XlaComputation) -> tuple[XlaComputation, bool]:
        """The computation recorded again, and whether anything is another than before."""
        function = self.function
        builder = XlaBuilder(computation.name)
        builder.purpose = computation.root.builder.purpose
        # From the beginning, as what the function records may add to them.
        builder.annotations = computation.annotations
        builder.sharding_form = computation.sharding_form
        is_changed = False
        values: list[XlaOp] = []  # by the numbers of the old ops
        ops, parameters = builder.ops, builder.parameters
        for op in computation.ops:
            attributes = op.attributes
            if self.instead and attributes is not NO_ATTRIBUTES:
                attributes = self._attributes(attributes)
                is_changed = is_changed or attributes is not op.attributes
            inside = [values[operand.id] for operand in op.operands]
            operands = Operands.of(op, inside, builder, attributes)
            begin, count = len(ops), len(parameters)
            if op.opcode == "parameter":
                # It stays, used or not: what applies the computation gives it all the same.
                parameters[attributes["number"]] = operands.keep()
                builder.parameter_names.add(op.name or "")
                count += 1
            try:
                found = function(op, operands)
            except Exception as error:
                error.add_note(f"while replacing {_said(op)} of {computation.name!r}")
                raise
            if found is None:
                found = operands.keep()
            elif found is not operands.kept:
                is_changed = True
                self._check(computation, op, operands, found)
                if operands.kept is None and found.id >= begin:
                    # Not what else its module said: that may be of the op which is gone.
                    found.metadata = merged(
                        found.metadata, op.metadata and with_metadata(op.metadata, others=None)
                    )
            if len(parameters) != count:
                raise BuilderError(
                    f"replace: function can't add parameters, got "
                    f"{next(reversed(parameters.values()))!r} for {_said(op)} of "
                    f"{computation.name!r}\n"
                    f"fix: xb.inline the computation into a builder that has them",
                    op="replace",
                )
            is_changed = is_changed or len(ops) != begin + 1
            values.append(found)
        for alias in computation.aliases:
            builder.setup_alias(*alias)
        for donor in computation.donors:
            builder.add_buffer_donor(*donor)
        root, result = values[computation.root.id], computation.program_shape.result
        new = builder.build(root, result=None if result is root.shape else result)
        return new, is_changed

    def _attributes(self, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
        """The attributes with the new computations in the places of the old ones."""
        found = self.attributes.get(id(attributes))
        if found is None:
            found = attributes
            if any(one in self.instead for one in called_in(attributes)):
                new = {name: self._value(value) for name, value in attributes.items()}
                found = MappingProxyType(new)
            self.attributes[id(attributes)] = found
        return found

    def _value(self, value: Any) -> Any:
        if isinstance(value, XlaComputation):
            return self.instead.get(value, value)
        if type(value) is tuple:
            return tuple([self._value(one) for one in value])
        return value

    def _check(
        self, computation: XlaComputation, op: XlaOp, operands: Operands, found: Any
    ) -> None:
        """Raises unless what the function gave can stand in the place of the op."""
        if type(found) is not XlaOp:
            raise OperandError(
                f"replace: function must return an XlaOp, or None to keep the op, got "
                f"{brief(found)} for {_said(op)} of {computation.name!r}\n"
                f"fix: record numbers with operands.builder.constant(value), several values with "
                f"xb.tuple",
                op="replace",
            )
        if found.builder is not operands.builder:
            raise BuilderError(
                f"replace: function must return an op of the new computation, got\n"
                f"  {found!r} of builder {found.builder.name!r}\n"
                f"  for {_said(op)} of {computation.name!r}\n"
                f"fix: record it on the operands that the function is given, or with "
                f"operands.builder; return None to keep the op",
                op="replace",
                shapes={"replacement": found.shape},
            )
        if found.shape is not op.shape:
            raise ShapeInferenceError(
                f"replace: what stands in the place of an op must have its shape, got\n"
                f"  {_said(op)} of {computation.name!r}: {op.shape}\n"
                f"  {found.opcode} by {_line(self.function)}: {found.shape}\n"
                f"fix: end with xb.convert_element_type, xb.reshape or what else gives the shape",
                op="replace",
                shapes={"op": op.shape, "replacement": found.shape},
            )


def _said(op: XlaOp) -> str:
    return f"%{op.id} {op.opcode}"


def _line(function: Any) -> str:
    """Where a callable is written, as far as Python says."""
    code = getattr(function, "__code__", getattr(type(function).__call__, "__code__", None))
    name = getattr(function, "__qualname__", type(function).__qualname__)
    if isinstance(code, CodeType):
        return f"{name} at {code.co_filename}:{code.co_firstlineno}"
    return str(name)
