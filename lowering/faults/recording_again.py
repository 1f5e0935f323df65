"""Record a computation again with other sizes, attributes or element types.

The ops are recorded by their public functions, so a change that does not fit an op is an error.
Sizes that follow from others, such as that of a concatenation, are those that the ops infer: where
one differs from the expected size, all dimensions that equal it get the inferred size, and the
computation is recorded once more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

import builder as xb
from builder.graph.computation import XlaComputation, called_in
from builder.graph.registry import registrar
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import OpMetadata, XlaOp, is_parameter, with_metadata
from builder.rewriting.copying import copy_op
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape, Shape, TupleShape, intern_array, leaves, without_layout
from lowering.faults.equal_dimensions import EqualDimensions, parts_of_reshape, window_dimensions
from lowering.importer.by_schema import schema_importer

Attributes = Mapping[str, Any]


class CannotChangeError(Exception):
    """A change does not fit the computation."""


@dataclass(frozen=True, slots=True)
class Change:
    """What is different when a computation is recorded again.

    Attributes:
        sizes: new sizes, by the roots of `EqualDimensions`.
        starts: the first index to keep in the arguments and constants, where sizes are smaller.
        likely: sizes to start with that may be replaced by inferred ones.
        attributes: attributes of ops that replace theirs.
        types: element types that replace others everywhere.
        keeps_annotations: whether shardings, layouts, aliases and frontend attributes are kept.
    """

    sizes: Mapping[Any, int] = field(default_factory=dict)
    starts: Mapping[Any, int] = field(default_factory=dict)
    likely: Mapping[Any, int] = field(default_factory=dict)
    attributes: Mapping[XlaOp, Attributes] = field(default_factory=dict)
    types: Mapping[PrimitiveType, PrimitiveType] = field(default_factory=dict)
    keeps_annotations: bool = True


class _InferredError(Exception):
    """A dimension has another size than expected."""

    def __init__(self, root: Any, size: int) -> None:
        self.root = root
        self.size = size


def recorded_again(
    computation: XlaComputation,
    arguments: Sequence[Any],
    dimensions: EqualDimensions,
    change: Change,
) -> tuple[XlaComputation, tuple[Any, ...]]:
    """Return a computation with a change, and its arguments.

    Args:
        computation: the computation, of static sizes.
        arguments: an argument for each parameter.
        dimensions: those of the computation.
        change: the change.

    Raises:
        CannotChangeError: an op requires another size than the change has; a parameter or a
            constant would become larger; or nothing changes.
        XlaError: an op does not accept its operands or attributes any more.

    Example:
        >>> import builder as xb, numpy as np
        >>> @xb.computation(xb.f32[4, 8], xb.f32[8, 2])
        ... def model(x, w):
        ...     return xb.tanh(x @ w)
        >>> dimensions = EqualDimensions(model)
        >>> _, size, _ = dimensions.sizes
        >>> change = Change(sizes={size: 3})
        >>> zeros = np.zeros((4, 8), np.float32), np.zeros((8, 2), np.float32)
        >>> smaller, arguments = recorded_again(model, zeros, dimensions, change)
        >>> smaller, [argument.shape for argument in arguments]
        (<XlaComputation 'model' (x: f32[4,3], w: f32[3,2]) -> f32[4,2], 4 ops>, [(4, 3), (3, 2)])
    """
    sizes = {**dimensions.sizes, **change.likely, **change.sizes}
    # An inferred size may change once more when other sizes are inferred, but not forever.
    for _ in range(2 * len(sizes) + 1):
        recorder = _Recorder(dimensions, change, sizes)
        try:
            new = recorder.recorded(computation)
            values = [
                recorder.value(p, argument)
                for p, argument in zip(computation.parameters, arguments, strict=True)
            ]
        except _InferredError as inferred:
            if inferred.root in change.sizes or inferred.size <= 0:
                raise CannotChangeError from None
            sizes[inferred.root] = inferred.size
        else:
            if new is computation:
                break
            return new, tuple(values)
    raise CannotChangeError


class _Recorder:
    """Records a computation, and those that it applies, with certain sizes."""

    def __init__(
        self, dimensions: EqualDimensions, change: Change, sizes: Mapping[Any, int]
    ) -> None:
        self.dimensions = dimensions
        self.change = change
        self.sizes = sizes
        self.computations: dict[XlaComputation, XlaComputation] = {}

    def recorded(self, computation: XlaComputation) -> XlaComputation:
        """Return the computation with the change; the computation itself if it has none."""
        for called in computation.called_computations():
            self.computations[called] = self._recorded(called)
        return self._recorded(computation)

    def _recorded(self, computation: XlaComputation) -> XlaComputation:
        builder = XlaBuilder(computation.name)
        keeps = self.change.keeps_annotations
        if keeps:
            builder.annotations = computation.annotations
            builder._sharding_form = computation._sharding_form
        values: dict[XlaOp, XlaOp] = {}
        is_changed = not keeps
        for op in computation.ops:
            operands = [values[operand] for operand in op.operands]
            new = self._op(builder, op, operands)
            values[op] = new
            is_same = new.shape is op.shape and _are_equal(new.attributes, op.attributes)
            is_changed = is_changed or not is_same
            new._code, new._lasti = op._code, op._lasti
            new.metadata = op.metadata if keeps else without_annotations(op.metadata)
        if not is_changed:
            return computation
        if keeps:
            for alias in computation.aliases:
                builder.setup_alias(*alias)
            for donor in computation.donors:
                builder.add_buffer_donor(*donor)
        return builder.build(values[computation.root])

    def _op(self, builder: XlaBuilder, op: XlaOp, operands: list[XlaOp]) -> XlaOp:
        """Record an op on new operands, of the expected shape."""
        attributes = {**op.attributes, **self.change.attributes.get(op, {})}
        if called_in(attributes):
            attributes = {name: self._applied(value) for name, value in attributes.items()}
        expected = self.shape(op)
        if is_parameter(op):
            layout = op.attributes.get("shape_with_layout")
            shape = layout if expected is op.shape and self.change.keeps_annotations else None
            flags = attributes.get("replicated_at_leaf_buffers", ())
            return builder._add_parameter(
                shape or expected, str(op.name), attributes["number"], flags
            )
        is_same = all(
            new.shape is old.shape for new, old in zip(operands, op.operands, strict=True)
        )
        if is_same and expected is op.shape and _are_equal(attributes, op.attributes):
            return copy_op(op, tuple(operands), builder, op.attributes)
        record = _RECORD.get(op.opcode, _by_schema)
        adjust = _ADJUST.get(op.opcode)
        call = _Call(self, builder, op, operands, attributes, expected)
        if adjust is not None:
            adjust(call)
        new = record(call)
        if new.opcode != op.opcode:
            raise CannotChangeError
        self._expect(op, without_layout(new.shape), expected)
        return new

    def _applied(self, value: Any) -> Any:
        if isinstance(value, XlaComputation):
            return self.computations[value]
        return tuple(map(self._applied, value)) if type(value) is tuple else value

    def _expect(self, op: XlaOp, inferred: Shape, expected: Shape) -> None:
        """Raise unless an inferred shape is the expected one."""
        if inferred is expected:
            return
        found = [leaf.dimensions for leaf in leaves(inferred) if isinstance(leaf, ArrayShape)]
        arrays = [
            nodes
            for nodes, leaf in zip(self.dimensions.of[op], leaves(expected), strict=True)
            if isinstance(leaf, ArrayShape)
        ]
        for sizes, nodes in zip(found, arrays, strict=True):
            if len(sizes) == len(nodes):
                for size, node in zip(sizes, nodes, strict=True):
                    self.need(node, size)
        raise CannotChangeError  # another element type, or rank

    def need(self, node: Any, size: int) -> None:
        """Raise unless a dimension is expected to have this size."""
        if self.sizes[node.root] != size:
            raise _InferredError(node.root, size)

    def at_most(self, node: Any, size: int) -> None:
        """Raise unless a dimension is expected to have at most this size."""
        if self.sizes[node.root] > size:
            raise _InferredError(node.root, size)

    def array_sizes(self, op: XlaOp, number: int = 0) -> tuple[int, ...]:
        """Return the expected sizes of an array in the value of an op."""
        return tuple([self.sizes[node.root] for node in self.dimensions.of[op][number]])

    def type(self, element_type: PrimitiveType) -> PrimitiveType:
        """Return the element type that replaces another."""
        return self.change.types.get(element_type, element_type)

    def shape(self, op: XlaOp) -> Shape:
        """Return the expected shape of an op."""
        arrays = iter(range(len(self.dimensions.of[op])))

        def new(shape: Shape) -> Shape:
            if isinstance(shape, TupleShape):
                return TupleShape([new(element) for element in shape.elements])
            sizes = self.array_sizes(op, next(arrays))
            if not isinstance(shape, ArrayShape):
                return shape
            return intern_array(self.type(shape.element_type), sizes)

        return new(op.shape)

    def value(self, op: XlaOp, value: Any) -> Any:
        """Return the part of an argument, or of a constant, that its new shape has."""
        arrays = iter(self.dimensions.of[op])

        def new(value: Any, shape: Shape) -> Any:
            if isinstance(shape, TupleShape):
                return tuple([new(*each) for each in zip(value, shape.elements, strict=True)])
            nodes = next(arrays)
            if not isinstance(shape, ArrayShape):
                return value
            return self._part(np.asarray(value), nodes, shape)

        return new(value, op.shape)

    def _part(self, array: Any, nodes: Sequence[Any], shape: ArrayShape) -> Any:
        key = []
        for size, node in zip(shape.dimensions, nodes, strict=True):
            new = self.sizes[node.root]
            if new > size:
                raise CannotChangeError
            start = min(self.change.starts.get(node.root, 0), size - new)
            key.append(slice(start, start + new))
        part = array[tuple(key)]
        new_type = self.type(shape.element_type)
        if new_type is shape.element_type:
            return part
        with np.errstate(all="ignore"):
            return part.astype(new_type.dtype)


def _are_equal(one: Attributes, other: Attributes) -> bool:
    """Return whether attributes are equal; arrays are if they are the same object."""
    return one.keys() == other.keys() and all(
        value is other[name] or (not isinstance(value, np.ndarray) and value == other[name])
        for name, value in one.items()
    )


def without_annotations(metadata: OpMetadata | None) -> OpMetadata | None:
    """Return the names and the source line in metadata, which a reader needs."""
    return with_metadata(
        metadata, frontend_attributes=None, sharding=None, others=None, op_type=None
    )


@dataclass(slots=True)
class _Call:
    """An op to record.

    Attributes:
        recorder: the sizes of all ops.
        builder: where it is recorded.
        op: the old op.
        operands: the new operands.
        attributes: the attributes, with computations that have the change.
        expected: the shape that the new op must have.
    """

    recorder: _Recorder
    builder: XlaBuilder
    op: XlaOp
    operands: list[XlaOp]
    attributes: dict[str, Any]
    expected: Shape

    @property
    def sizes(self) -> tuple[int, ...]:
        """The expected sizes of the op, an array."""
        return self.recorder.array_sizes(self.op)

    @property
    def dimensions(self) -> tuple[Any, ...]:
        """The dimensions of the op, an array."""
        return self.recorder.dimensions.of[self.op][0]

    def operand_sizes(self, number: int = 0) -> tuple[int, ...]:
        """Return the new sizes of an operand, an array."""
        return array(self.operands[number].shape).dimensions

    def operand_dimensions(self, number: int = 0) -> tuple[Any, ...]:
        """Return the dimensions of an operand, an array."""
        return self.recorder.dimensions.of[self.op.operands[number]][0]


def array(shape: Shape) -> ArrayShape:
    """Return the shape of an array.

    Raises:
        CannotChangeError: the shape is that of a tuple or a token.
    """
    if not isinstance(shape, ArrayShape):
        raise CannotChangeError
    return shape


def _by_schema(call: _Call) -> XlaOp:
    """Record an op by the public function that its schema describes."""
    try:
        importer = schema_importer(call.op.opcode)
    except LookupError:
        raise CannotChangeError from None
    results: dict[str, Any] = {"shape": call.expected}
    if isinstance(call.expected, ArrayShape):
        element_type = call.expected.element_type
        results |= {"new_element_type": element_type, "preferred_element_type": element_type}
    return importer.record(call.builder, call.operands, call.attributes, results)


_RECORD: Final[dict[str, Callable[[_Call], XlaOp]]] = {}
"""How ops are recorded that `_by_schema` does not record."""

_ADJUST: Final[dict[str, Callable[[_Call], None]]] = {}
"""What changes in the attributes of ops together with sizes."""

_record = registrar(_RECORD)
_adjust = registrar(_ADJUST)


@_record("constant")
def _constant(call: _Call) -> XlaOp:
    if call.attributes["value"] is not call.op.attributes["value"]:
        return call.builder.constant(call.attributes["value"])
    return call.builder.constant(call.recorder.value(call.op, call.op.attributes["value"]))


@_record("broadcast_in_dim")
def _broadcast_in_dim(call: _Call) -> XlaOp:
    places = call.attributes["broadcast_dimensions"]
    return xb.broadcast_in_dim(call.operands[0], call.sizes, places)


@_record("reshape")
def _reshape(call: _Call) -> XlaOp:
    old, new = call.operand_sizes(), call.sizes
    for old_part, new_part in parts_of_reshape(call.op):
        count, new_count = math.prod(old[d] for d in old_part), math.prod(new[d] for d in new_part)
        if count != new_count and len(new_part) == 1:
            call.recorder.need(call.dimensions[new_part[0]], count)
        if count != new_count and len(old_part) == 1:
            call.recorder.need(call.operand_dimensions()[old_part[0]], new_count)
    return xb.reshape(call.operands[0], new)


@_record("rng")
def _rng(call: _Call) -> XlaOp:
    function = getattr(xb, call.attributes["distribution"])
    new: XlaOp = function(*call.operands, call.expected)
    return new


@_record("call", "composite", "conditional", "while")
def _control_flow(call: _Call) -> XlaOp:
    """Copy an op that applies computations to values, if their shapes fit."""
    shapes = [operand.shape for operand in call.operands]
    applied = called_in(call.attributes)
    given = [shapes] * len(applied)
    results = [call.expected] * len(applied)
    match call.op.opcode:
        case "conditional":
            given = [[shape] for shape in shapes[1:]]
        case "while":
            results = [call.attributes["condition"].root.shape, *shapes]
    for computation, operands, result in zip(applied, given, results, strict=True):
        accepted = [p.shape for p in computation.parameters]
        if accepted != operands or computation.root.shape is not result:
            raise CannotChangeError
    new = copy_op(call.op, tuple(call.operands), call.builder, call.attributes)
    new.shape = call.expected
    return new


@_record("rng_bit_generator")
def _rng_bit_generator(call: _Call) -> XlaOp:
    assert isinstance(call.expected, TupleShape)
    algorithm, shape = call.attributes["algorithm"], call.expected.elements[1]
    return xb.rng_bit_generator(algorithm, call.operands[0], shape)


@_record("scan")
def _scan(call: _Call) -> XlaOp:
    attributes = call.attributes
    along = attributes["scan_dimension"]
    inputs = len(call.operands) - attributes["num_carries"]
    return xb.scan(
        call.operands[:inputs],
        call.operands[inputs:],
        attributes["to_apply"],
        along,
        call.recorder.array_sizes(call.op)[along],
        is_reverse=attributes["is_reverse"],
        is_associative=attributes["is_associative"],
    )


@_adjust("slice")
def _adjust_slice(call: _Call) -> None:
    """Keep as many elements as expected, from the old start if there are enough."""
    old = array(call.op.operands[0].shape).dimensions
    places = []
    names = "start_indices", "limit_indices", "strides"
    bounds = zip(*[call.attributes[name] for name in names], strict=True)
    for d, (start, limit, stride) in enumerate(bounds):
        size, (new, node) = call.operand_sizes()[d], (call.sizes[d], call.dimensions[d])
        if (start, limit, stride) == (0, old[d], 1):
            call.recorder.need(node, size)
        call.recorder.at_most(node, size)
        step = stride if (new - 1) * stride < size else 1
        length = (new - 1) * step + 1
        first = min(start, size - length)
        places.append((first, first + length, step))
    for name, values in zip(names, zip(*places, strict=True), strict=False):
        call.attributes[name] = values


@_adjust("dynamic_slice")
def _adjust_dynamic_slice(call: _Call) -> None:
    for node, size in zip(call.dimensions, call.operand_sizes(), strict=True):
        call.recorder.at_most(node, size)
    call.attributes["slice_sizes"] = call.sizes


@_adjust("dynamic_update_slice")
def _adjust_dynamic_update_slice(call: _Call) -> None:
    for node, size in zip(call.operand_dimensions(1), call.operand_sizes(), strict=True):
        call.recorder.at_most(node, size)


@_adjust("gather")
def _adjust_gather(call: _Call) -> None:
    sizes, slices = call.operand_sizes(), list(call.attributes["slice_sizes"])
    numbers = call.attributes["dimension_numbers"]
    _need_index_vectors(call, 1, numbers.index_vector_dim, numbers.start_index_map)
    for d, place in zip(window_dimensions(call.op), numbers.offset_dims, strict=True):
        call.recorder.at_most(call.dimensions[place], sizes[d])
        slices[d] = call.sizes[place]
    call.attributes["slice_sizes"] = tuple(slices)


@_adjust("scatter")
def _adjust_scatter(call: _Call) -> None:
    numbers = call.attributes["dimension_numbers"]
    count = len(call.operands) // 2
    indexed = numbers.scatter_dims_to_operand_dims
    _need_index_vectors(call, count, numbers.index_vector_dim, indexed)
    for number in range(count + 1, len(call.operands)):
        nodes = call.operand_dimensions(number)
        for d, place in zip(window_dimensions(call.op), numbers.update_window_dims, strict=True):
            call.recorder.at_most(nodes[place], call.operand_sizes()[d])


def _need_index_vectors(call: _Call, number: int, along: int, indexed: Sequence[int]) -> None:
    """Require an index for each indexed dimension, along a dimension of an operand."""
    nodes = call.operand_dimensions(number)
    if along < len(nodes):
        call.recorder.need(nodes[along], len(indexed))


@_adjust("top_k")
def _adjust_top_k(call: _Call) -> None:
    node = call.dimensions[-1]
    call.recorder.at_most(node, call.operand_sizes()[-1])
    call.attributes["k"] = call.sizes[-1]


@_adjust("fft")
def _adjust_fft(call: _Call) -> None:
    lengths = call.attributes["fft_length"]
    sizes = call.operand_sizes()[-len(lengths) :]
    if call.attributes["fft_type"].name == "IRFFT":
        last = call.sizes[-1]
        call.recorder.need(call.operand_dimensions()[-1], last // 2 + 1)
        sizes = (*sizes[:-1], last)
    call.attributes["fft_length"] = sizes


@_adjust("convolution")
def _adjust_convolution(call: _Call) -> None:
    """Require the input features that the groups have."""
    numbers = call.attributes["dimension_numbers"]
    features = call.operand_sizes(1)[numbers.kernel_input_feature_dimension]
    features *= call.attributes["feature_group_count"]
    call.recorder.need(call.operand_dimensions()[numbers.input_feature_dimension], features)


@_adjust("reduce_window", "select_and_scatter")
def _adjust_windows(call: _Call) -> None:
    """Make windows no larger than the array, if the array became smaller."""
    old = array(call.op.operands[0].shape).dimensions
    windows = zip(call.attributes["window_dimensions"], old, call.operand_sizes(), strict=True)
    sizes = [min(size, new) if new < before else size for size, before, new in windows]
    call.attributes["window_dimensions"] = tuple(sizes)
    if call.op.opcode == "select_and_scatter":
        strides, padding = call.attributes["window_strides"], call.attributes["padding"]
        for d, node in enumerate(call.operand_dimensions(1)):
            rest = call.operand_sizes()[d] + sum(padding[d]) - sizes[d]
            call.recorder.need(node, rest // strides[d] + 1)
