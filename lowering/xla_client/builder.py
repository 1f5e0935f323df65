"""XlaBuilder of the old binding, which records into a `builder.XlaBuilder`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final

import builder as xb
from builder.errors import OperandError, brief, error_of
from lowering.xla_client.computations import XlaComputation
from lowering.xla_client.errors import reporting
from lowering.xla_client.protos import OpMetadata
from lowering.xla_client.shapes import ProgramShape, Shape
from lowering.xla_client.shardings import OpSharding

RUNTIME_VALUES: Final = frozenset(
    {
        "parameter",
        "rng",
        "rng_bit_generator",
        "all_reduce",
        "reduce_scatter",
        "all_gather",
        "all_to_all",
        "all_to_all_tuple",
        "collective_permute",
        "collective_broadcast",
        "replica_id",
        "partition_id",
        "call",
        "custom_call",
        "python_call",
        "while",
        "scatter",
        "send",
        "recv",
        "infeed",
        "outfeed",
    }
)
"""The opcodes whose results are not constant, whatever their operands are."""


class XlaBuilder:
    """Records ops, and builds computations of them.

    `new` is the `builder.XlaBuilder` that records. After `build` it is an empty one: as in
    jaxlib 0.6, earlier ops can't be operands any more.

    Args:
        name: the name of the computation.

    Example:
        >>> from lowering import xla_client as xc
        >>> b = xc.XlaBuilder("negated")
        >>> x = xc.ops.Parameter(b, 0, xc.Shape("f32[2]"))
        >>> b.build(xc.ops.Neg(x)).name()
        'negated'
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            rule = "name must be a string"
            raise error_of(OperandError, "XlaBuilder", rule, got=brief(name))
        self._name = name or "computation"
        self._metadata: AbstractContextManager[None] | None = None
        self._attributes: AbstractContextManager[None] | None = None
        self._sharding: str | None = None
        self.new = xb.XlaBuilder(self._name)

    @reporting("build")
    def build(self, root: xb.XlaOp | None = None) -> XlaComputation:
        """Build a computation of the ops recorded since the last call.

        Args:
            root: the op whose value is the result; None for the last op.

        Raises:
            XlaRuntimeError: nothing is recorded; a parameter is missing; `root` is an op of another
                builder.
        """
        built = self.new.build() if root is None else self.new.build(root)
        self.clear_op_metadata()
        self.clear_frontend_attributes()
        self.new = xb.XlaBuilder(self._name)
        if self._sharding is not None:
            self.new.set_sharding(self._sharding)
        return XlaComputation.of(built)

    Build = build

    @reporting("get_shape")
    def get_shape(self, op: xb.XlaOp) -> Shape:
        """Return the shape of an op.

        Raises:
            OperandError: `op` is not an op.
            XlaRuntimeError: it is an op of another builder.
        """
        self._check("get_shape", op)
        return Shape.of(op.shape)

    GetShape = get_shape

    def _check(self, method: str, op: object) -> None:
        if not isinstance(op, xb.XlaOp):
            raise error_of(OperandError, method, "expected an XlaOp", got=brief(op))
        if op.builder is not self.new:
            rule = f"expected an op that {self._name!r} recorded since its last build"
            raise error_of(xb.BuilderError, method, rule, got=repr(op))

    @reporting("get_program_shape")
    def get_program_shape(self, root: xb.XlaOp | None = None) -> ProgramShape:
        """Return the shapes of the parameters and of `root`, by default the last op.

        Raises:
            XlaRuntimeError: nothing is recorded; `root` is an op of another builder.
        """
        if root is None:
            if not self.new.ops:
                raise error_of(xb.BuilderError, "get_program_shape", "no op is recorded")
            root = self.new.ops[-1]
        self._check("get_program_shape", root)
        parameters = [
            parameter.attributes.get("shape_with_layout", parameter.shape)
            for _, parameter in sorted(self.new.parameters.items())
        ]
        return ProgramShape(map(Shape.of, parameters), Shape.of(root.shape))

    @reporting("is_constant")
    def is_constant(self, op: xb.XlaOp) -> bool:
        """Return whether an op depends on constants only.

        Raises:
            OperandError: `op` is not an op.
            XlaRuntimeError: it is an op of another builder.
        """
        self._check("is_constant", op)
        pending, seen = [op], {op.id}
        while pending:
            current = pending.pop()
            if current.opcode in RUNTIME_VALUES:
                return False
            pending += [operand for operand in current.operands if operand.id not in seen]
            seen.update(operand.id for operand in current.operands)
        return True

    @reporting("setup_alias")
    def setup_alias(
        self, output_index: Sequence[int], param_number: int, param_index: Sequence[int]
    ) -> None:
        """Let the program write a result to the memory of an argument.

        Raises:
            XlaRuntimeError: there is no such parameter, or it is aliased already.
        """
        self.new.setup_alias(output_index, param_number, param_index)

    @reporting("set_sharding")
    def set_sharding(self, sharding: OpSharding) -> None:
        """Set the sharding of the ops recorded from now on.

        Raises:
            XlaRuntimeError: the sharding is invalid.
        """
        if not isinstance(sharding, OpSharding):
            rule = "expected an OpSharding"
            raise error_of(OperandError, "set_sharding", rule, got=brief(sharding))
        self.new.set_sharding(sharding.new())
        self._sharding = sharding.new()

    def clear_sharding(self) -> None:
        """Record ops without a sharding from now on."""
        self.new.set_sharding(None)
        self._sharding = None

    @reporting("set_op_metadata")
    def set_op_metadata(self, metadata: OpMetadata) -> None:
        """Set the type, the name and the source line of the ops recorded from now on.

        Raises:
            OperandError: a field has the wrong type.
        """
        if not isinstance(metadata, OpMetadata):
            rule = "expected an OpMetadata"
            raise error_of(OperandError, "set_op_metadata", rule, got=brief(metadata))
        self.clear_op_metadata()
        self._metadata = self.new.op_metadata(**metadata.new())
        self._metadata.__enter__()

    def clear_op_metadata(self) -> None:
        """Record ops with the source lines of their callers from now on."""
        if self._metadata is not None:
            self._metadata.__exit__(None, None, None)
            self._metadata = None

    @reporting("set_frontend_attributes")
    def set_frontend_attributes(self, attributes: Mapping[str, str]) -> None:
        """Set the frontend attributes of the ops recorded from now on.

        Raises:
            OperandError: `attributes` does not map names to strings.
        """
        self.clear_frontend_attributes()
        self._attributes = self.new.frontend_attributes(attributes)
        self._attributes.__enter__()

    def clear_frontend_attributes(self) -> None:
        """Record ops without frontend attributes from now on."""
        if self._attributes is not None:
            self._attributes.__exit__(None, None, None)
            self._attributes = None

    def __repr__(self) -> str:
        return f"<XlaBuilder {self._name!r}, {len(self.new.ops)} ops>"


def new_builder(op: str, value: object) -> xb.XlaBuilder:
    """Return the `builder.XlaBuilder` of an old or new builder.

    Raises:
        OperandError: `value` is neither.
    """
    if isinstance(value, XlaBuilder):
        return value.new
    if isinstance(value, xb.XlaBuilder):
        return value
    raise error_of(OperandError, op, "expected an XlaBuilder", got=brief(value))
