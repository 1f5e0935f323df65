"""XlaBuilder, XlaComputation and HloModule of the old binding, around those of `builder`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final

import builder as xb
from builder.errors import OperandError, brief, error_of
from lowering.importer.hlo import from_hlo
from lowering.jaxlib_api.hlo_conversion import hlo_proto_text
from lowering.stablehlo.lower import proto_of_text, to_hlo_proto
from lowering.xla_client.errors import reporting
from lowering.xla_client.protos import OpMetadata, OpSharding
from lowering.xla_client.shapes import ProgramShape, Shape


class HloModule:
    """An HLO module as text."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    @property
    def name(self) -> str:
        """The name of the module."""
        return self._text.split(None, 2)[1].rstrip(",")

    @staticmethod
    def from_serialized_hlo_module_proto(proto: bytes) -> HloModule:
        """Return the module of a HloModuleProto."""
        return XlaComputation(proto).get_hlo_module()

    @reporting("to_string")
    def to_string(self, options: object = None) -> str:
        """Return HLO text, as XLA prints it with an HloPrintOptions."""
        if options is None:
            return self._text
        return hlo_proto_text(self.as_serialized_hlo_module_proto(), options)

    def as_serialized_hlo_module_proto(self) -> bytes:
        """Return a HloModuleProto."""
        return proto_of_text(self._text)


class XlaComputation:
    """A computation that an XlaBuilder has built; `new` is the `builder.XlaComputation`.

    Args:
        proto: a HloModuleProto.

    Example:
        >>> from lowering import xla_client as xc
        >>> b = xc.XlaBuilder("two")
        >>> x = xc.ops.Parameter(b, 0, xc.Shape("f32[2]"))
        >>> xc.ops.Add(x, x).opcode
        'add'
        >>> b.build().program_shape()
        (p0: f32[2]) -> f32[2]
    """

    __slots__ = ("_proto", "new")

    new: xb.XlaComputation
    _proto: bytes | None

    @reporting("XlaComputation")
    def __init__(self, proto: bytes) -> None:
        if not isinstance(proto, bytes):
            rule = "expected the bytes of a HloModuleProto"
            raise error_of(OperandError, "XlaComputation", rule, got=brief(proto))
        self.new = from_hlo(proto)
        self._proto = proto

    @classmethod
    def of(cls, new: xb.XlaComputation) -> XlaComputation:
        """Return the old form of a computation of `builder`."""
        computation = cls.__new__(cls)
        computation.new = new
        computation._proto = None
        return computation

    def name(self) -> str:
        """Return the name of the computation."""
        return self.new.name

    def program_shape(self) -> ProgramShape:
        """Return the shapes of the parameters and the result."""
        return ProgramShape.of(self.new.program_shape)

    def as_hlo_text(self, print_large_constants: bool = False) -> str:
        """Return HLO text; constants are complete in any case."""
        return self.new.to_hlo_text()

    def get_hlo_module(self) -> HloModule:
        """Return the computation as an HloModule; that of the proto, if it was read from one."""
        if self._proto is not None:
            return HloModule(hlo_proto_text(self._proto))
        return HloModule(self.new.to_hlo_text(metadata=True))

    as_hlo_module = get_hlo_module

    def as_serialized_hlo_module_proto(self) -> bytes:
        """Return a HloModuleProto."""
        return to_hlo_proto(self.new) if self._proto is None else self._proto

    def as_hlo_dot_graph(self) -> str:
        """Return the graph of the ops in the language of Graphviz."""
        lines = [f'  {op.id} [label="{op.opcode}\\n{op.shape}"];' for op in self.new.ops]
        lines += [f"  {operand.id} -> {op.id};" for op in self.new.ops for operand in op.operands]
        return "\n".join(["digraph G {", *lines, "}"])

    def hash(self) -> int:
        """Return a number of 64 bits that is equal for equal HLO text."""
        digest = hashlib.blake2b(self.as_hlo_text().encode(), digest_size=8)
        return int.from_bytes(digest.digest(), "little")

    def __repr__(self) -> str:
        return f"<XlaComputation {self.name()!r} {self.program_shape()!r}>"


def new_computation(op: str, value: object) -> xb.XlaComputation:
    """Return the `builder.XlaComputation` of an old or new computation.

    Raises:
        OperandError: `value` is neither.
    """
    new = value.new if isinstance(value, XlaComputation) else value
    if isinstance(new, xb.XlaComputation):
        return new
    fix = "pass the result of XlaBuilder.build()"
    raise error_of(OperandError, op, "expected an XlaComputation", fix, got=brief(value))


RUNTIME_VALUES: Final = frozenset(
    """
    parameter rng rng_bit_generator all_reduce reduce_scatter all_gather all_to_all
    all_to_all_tuple collective_permute collective_broadcast replica_id partition_id call
    custom_call python_call while scatter send recv infeed outfeed
    """.split()
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
    new = value.new if isinstance(value, XlaBuilder) else value
    if isinstance(new, xb.XlaBuilder):
        return new
    raise error_of(OperandError, op, "expected an XlaBuilder", got=brief(value))
