"""Record a computation again, with some ops replaced by a function, or without its prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from types import CodeType, MappingProxyType
from typing import Any, Final, Self

from builder.checking import flag
from builder.errors import BuilderError, OperandError, ShapeInferenceError, brief, error_of
from builder.graph.computation import XlaComputation, called_in, is_debug_call
from builder.graph.foreign_values import Purpose
from builder.graph.inlined_calls import copied_calls
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import NO_ATTRIBUTES, XlaOp, is_parameter, with_metadata
from builder.rewriting.copying import copy_op, merge_metadata
from builder.support.arguments import is_function
from builder.support.frames import shown_file


class Operands(tuple[XlaOp, ...]):
    """The operands of the op to replace, in the new computation.

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
        """Create the operands of `op`; `attributes` are for the copy that `keep` records."""
        created = cls(operands)
        created.builder = builder
        created._op = op
        created._attributes = attributes
        return created

    def keep(self) -> XlaOp:
        """Record the original op on these operands; a second call returns the same op."""
        if self.kept is None:
            self.kept = copy_op(self._op, tuple(self), self.builder, self._attributes)
        return self.kept


Replacement = Callable[[XlaOp, Operands], XlaOp | None]
"""A function of an op and its new operands that returns the new op, or None to keep the old."""

_OMIT: Final[Any] = object()
"""What a function of this module returns for an op without users that is to be omitted."""


def replace(
    computation: XlaComputation, function: Replacement, *, nested: bool = False
) -> XlaComputation:
    """Return the computation with some ops replaced; see `XlaComputation.replace`."""
    if not is_function(function):
        raise _not_a_replacement(function)
    return _replaced(computation, function, nested=flag("replace", "nested", nested))


def strip_debug(computation: XlaComputation) -> XlaComputation:
    """Return the computation without prints and checks; see `XlaComputation.strip_debug`."""
    everything = (computation, *computation.called_computations())
    if not any(map(is_debug_call, chain.from_iterable(each.ops for each in everything))):
        return computation

    def omit(op: XlaOp, _operands: Operands) -> Any:
        return _OMIT if is_debug_call(op) else None

    return _replaced(computation, omit, nested=True, same_values=True)


def _replaced(
    computation: XlaComputation, function: Replacement, *, nested: bool, same_values: bool = False
) -> XlaComputation:
    rewriter = _Rewriter(function, same_values)
    if nested:
        # Callees come before their callers.
        for called in computation.called_computations():
            new, is_changed = rewriter.rewrite(called)
            if is_changed:
                rewriter.replaced[called] = new
    return rewriter.rewrite(computation)[0]


def _not_a_replacement(function: object) -> OperandError:
    rule = "function must be a function of an op and its new operands"
    fix = "write def function(op, operands): ..., which returns None to keep the op"
    return error_of(OperandError, "replace", rule, fix, got=brief(function))


class _Rewriter:
    """Replaces ops in a computation and in the computations that it applies.

    Attributes:
        function: the user's function.
        same_values: whether the new computations are known to compute the same values, so that
            they keep their derivatives.
        replaced: the new computation for each applied computation that has changed.
        attributes: the rewritten attributes, by the id of the original ones, so that ops that
            share attributes still do.
    """

    def __init__(self, function: Replacement, same_values: bool) -> None:
        self.function = function
        self.same_values = same_values
        self.replaced: dict[XlaComputation, XlaComputation] = {}
        self.attributes: dict[int, Mapping[str, Any]] = {}

    def rewrite(self, computation: XlaComputation) -> tuple[XlaComputation, bool]:
        """Record the computation again; return the new one, and whether it differs from the old."""
        function = self.function
        builder = XlaBuilder(computation.name)
        purpose = computation.root.builder._purpose
        builder._purpose = purpose and Purpose("replace", purpose.text)
        # Set first, because ops that the function records may add to them.
        builder.annotations = computation.annotations
        builder._sharding_form = computation._sharding_form
        is_changed = False
        values: list[XlaOp] = []  # by id of the old op
        edited: set[XlaOp] = set()
        ops, parameters = builder.ops, builder.parameters
        for op in computation.ops:
            attributes = op.attributes
            if self.replaced and attributes is not NO_ATTRIBUTES:
                attributes = self._attributes(attributes)
                if attributes is not op.attributes:
                    is_changed = True
                    edited.add(op)
            inputs = [values[operand.id] for operand in op.operands]
            operands = Operands.of(op, inputs, builder, attributes)
            first_id, count = len(ops), len(parameters)
            if is_parameter(op):
                # Parameters are kept, used or not, because callers pass them.
                parameters[attributes["number"]] = operands.keep()
                builder._parameter_names.add(op.name or "")
                count += 1
            try:
                new = function(op, operands)
            except Exception as error:
                frames = error.__traceback__
                if isinstance(error, TypeError) and frames is not None and frames.tb_next is None:
                    # Raised by the call itself, not inside: the arguments do not match.
                    raise _not_a_replacement(function) from error
                error.add_note(f"while replacing {_description(op)} of {computation.name!r}")
                raise
            if new is _OMIT:
                values.append(op)  # never read
                is_changed = True
                continue
            if new is None:
                new = operands.keep()
            elif new is not operands.kept:
                is_changed = True
                edited.add(op)
                self._check_replacement(computation, op, operands, new)
                if operands.kept is None and new.id >= first_id:
                    # Other attributes of the imported operation may not apply to the replacement.
                    new.metadata = merge_metadata(
                        new.metadata, op.metadata and with_metadata(op.metadata, others=None)
                    )
            if len(parameters) != count:
                raise BuilderError(
                    "function must not record parameters",
                    got=f"{next(reversed(parameters.values()))!r} for {_description(op)} of "
                    f"{computation.name!r}",
                    fix="inline the computation with xb.inline into a builder that has these "
                    "parameters",
                    op="replace",
                )
            is_changed = is_changed or len(ops) != first_id + 1
            values.append(new)
        for alias in computation.aliases:
            builder.setup_alias(*alias)
        for donor in computation.donors:
            builder.add_buffer_donor(*donor)
        if computation._inlined_calls:
            calls = copied_calls(computation._inlined_calls, lambda op: values[op.id], edited)
            builder._inlined_calls += calls
        root, result = values[computation.root.id], computation.program_shape.result
        rewritten = builder.build(root, result=None if result is root.shape else result)
        if self.same_values or not is_changed:
            rewritten.derivative = computation.derivative
        return rewritten, is_changed

    def _attributes(self, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return `attributes`, with computations that have changed replaced by the new ones."""
        rewritten = self.attributes.get(id(attributes))
        if rewritten is None:
            rewritten = attributes
            if any(called in self.replaced for called in called_in(attributes)):
                values = {name: self._value(value) for name, value in attributes.items()}
                rewritten = MappingProxyType(values)
            self.attributes[id(attributes)] = rewritten
        return rewritten

    def _value(self, value: Any) -> Any:
        if isinstance(value, XlaComputation):
            return self.replaced.get(value, value)
        if type(value) is tuple:
            return tuple([self._value(element) for element in value])
        return value

    def _check_replacement(
        self, computation: XlaComputation, op: XlaOp, operands: Operands, new: Any
    ) -> None:
        """Raise an error unless `new`, the result of the user's function, can replace `op`."""
        if type(new) is not XlaOp:
            raise OperandError(
                "function must return an XlaOp, or None to keep the op",
                got=f"{brief(new)} for {_description(op)} of {computation.name!r}",
                fix="record numbers with operands.builder.constant(value), and several values "
                "with xb.tuple",
                op="replace",
            )
        if new.builder is not operands.builder:
            raise BuilderError(
                "function must return an op of the new computation",
                got=f"\n  {new!r} of builder {new.builder.name!r}\n"
                f"  for {_description(op)} of {computation.name!r}",
                fix="record the new op on the operands that the function receives, or with "
                "operands.builder; return None to keep the op",
                op="replace",
                shapes={"replacement": new.shape},
            )
        if new.shape is not op.shape:
            raise ShapeInferenceError(
                "a replacement must have the shape of the op",
                got=f"\n  {_description(op)} of {computation.name!r}: {op.shape}\n"
                f"  {new.opcode} by {_location(self.function)}: {new.shape}",
                fix="convert the result, for instance with xb.convert_element_type or xb.reshape",
                op="replace",
                shapes={"op": op.shape, "replacement": new.shape},
            )


def _description(op: XlaOp) -> str:
    return f"%{op.id} {op.opcode}"


def _location(function: Any) -> str:
    """Return the name of a callable and, if Python provides it, its file and line."""
    code = getattr(function, "__code__", getattr(type(function).__call__, "__code__", None))
    name = getattr(function, "__qualname__", type(function).__qualname__)
    if isinstance(code, CodeType):
        return f"{name} at {shown_file(code.co_filename)}:{code.co_firstlineno}"
    return str(name)
