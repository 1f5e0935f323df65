"""The mutable attribute values of the old binding, which imitate XLA's protocol buffers.

Each class has a method `new`, which returns the immutable value of `builder`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final, cast

import numpy as np

import builder as xb
from builder.errors import OperandError, brief, error_of
from lowering.xla_client.enums import (
    ChannelHandle_ChannelType,
    OpSharding_Type,
    PaddingType,
    PrecisionConfig_Precision,
    ResultAccuracy_Mode,
    member,
)
from lowering.xla_client.errors import reporting


@dataclass
class OpSharding:
    """A sharding of an array, or of the arrays of a tuple."""

    Type: ClassVar[type[OpSharding_Type]] = OpSharding_Type
    type: OpSharding_Type = OpSharding_Type.REPLICATED
    tile_assignment_dimensions: list[int] = field(default_factory=list)
    tile_assignment_devices: list[int] = field(default_factory=list)
    iota_reshape_dims: list[int] = field(default_factory=list)
    iota_transpose_perm: list[int] = field(default_factory=list)
    tuple_shardings: list[OpSharding] = field(default_factory=list)
    replicate_on_last_tile_dim: bool = False
    last_tile_dims: list[OpSharding_Type] = field(default_factory=list)

    def clone(self) -> OpSharding:
        """Return a copy."""
        return replace(self)

    def new(self) -> str:
        """Return the text that `builder.XlaBuilder.sharding` takes."""
        kind = member(OpSharding_Type, "OpSharding", self.type)
        if kind is OpSharding_Type.TUPLE:
            return f"{{{', '.join(element.new() for element in self.tuple_shardings)}}}"
        if kind is OpSharding_Type.MAXIMAL:
            if len(self.tile_assignment_devices) != 1:
                rule = "MAXIMAL needs one device"
                raise error_of(OperandError, "OpSharding", rule, got=self.tile_assignment_devices)
            return f"{{maximal device={self.tile_assignment_devices[0]}}}"
        if kind is not OpSharding_Type.OTHER:
            return f"{{{kind.name.lower()}}}"
        return f"{{devices=[{_numbers(self.tile_assignment_dimensions)}]{self._devices()}}}"

    def _devices(self) -> str:
        if self.iota_reshape_dims:
            devices = f"<=[{_numbers(self.iota_reshape_dims)}]"
            if list(self.iota_transpose_perm) != list(range(len(self.iota_transpose_perm))):
                devices += f"T({_numbers(self.iota_transpose_perm)})"
        else:
            devices = _numbers(self.tile_assignment_devices)
        if self.replicate_on_last_tile_dim:
            return f"{devices} last_tile_dim_replicate"
        if self.last_tile_dims:
            kinds = [member(OpSharding_Type, "OpSharding", k) for k in self.last_tile_dims]
            return f"{devices} last_tile_dims={{{', '.join(k.name.lower() for k in kinds)}}}"
        return devices


def _numbers(values: list[int]) -> str:
    return ",".join(map(str, values))


@dataclass
class PaddingConfigDimension:
    """The padding of one dimension."""

    edge_padding_low: int = 0
    edge_padding_high: int = 0
    interior_padding: int = 0


@dataclass
class PaddingConfig:
    """The padding of an array: a PaddingConfigDimension for each dimension."""

    dimensions: list[PaddingConfigDimension] = field(default_factory=list)

    def new(self) -> xb.PaddingConfig:
        """Return the value for the new API."""
        return xb.PaddingConfig(
            [(d.edge_padding_low, d.edge_padding_high, d.interior_padding) for d in self.dimensions]
        )


@reporting("make_padding_config")
def make_padding_config(
    padding_config: PaddingConfig | Sequence[tuple[int, int, int]],
) -> PaddingConfig:
    """Return a PaddingConfig of triples (low, high, interior).

    Example:
        >>> from lowering import xla_client as xc
        >>> xc.make_padding_config([(1, 2, 0)]).dimensions[0].edge_padding_high
        2
    """
    if isinstance(padding_config, PaddingConfig):
        return padding_config
    return PaddingConfig([PaddingConfigDimension(*triple) for triple in padding_config])


class _DimensionNumbers:
    """The base class of dimension numbers, which have the same fields in `builder`."""

    def new(self) -> Any:
        """Return the value for the new API."""
        return getattr(xb, type(self).__name__)(**vars(self))


@dataclass
class DotDimensionNumbers(_DimensionNumbers):
    """See `builder.DotDimensionNumbers`."""

    lhs_contracting_dimensions: list[int] = field(default_factory=list)
    rhs_contracting_dimensions: list[int] = field(default_factory=list)
    lhs_batch_dimensions: list[int] = field(default_factory=list)
    rhs_batch_dimensions: list[int] = field(default_factory=list)


@reporting("make_dot_dimension_numbers")
def make_dot_dimension_numbers(dimension_numbers: Any) -> DotDimensionNumbers:
    """Return DotDimensionNumbers of ``((lhs_contract, rhs_contract), (lhs_batch, rhs_batch))``.

    Example:
        >>> from lowering import xla_client as xc
        >>> xc.make_dot_dimension_numbers((([2], [1]), ([0], [0]))).lhs_batch_dimensions
        [0]
    """
    if isinstance(dimension_numbers, (list, tuple)):
        contracting, batch = dimension_numbers
        return DotDimensionNumbers(*map(list, contracting), *map(list, batch))
    return cast("DotDimensionNumbers", dimension_numbers)


@dataclass
class ConvolutionDimensionNumbers(_DimensionNumbers):
    """See `builder.ConvolutionDimensionNumbers`."""

    input_batch_dimension: int = 0
    input_feature_dimension: int = 0
    input_spatial_dimensions: list[int] = field(default_factory=list)
    kernel_input_feature_dimension: int = 0
    kernel_output_feature_dimension: int = 0
    kernel_spatial_dimensions: list[int] = field(default_factory=list)
    output_batch_dimension: int = 0
    output_feature_dimension: int = 0
    output_spatial_dimensions: list[int] = field(default_factory=list)


@reporting("make_convolution_dimension_numbers")
def make_convolution_dimension_numbers(
    dimension_numbers: ConvolutionDimensionNumbers | tuple[str, str, str] | None,
    num_spatial_dimensions: int,
) -> ConvolutionDimensionNumbers:
    """Return the dimension numbers of three strings such as ``("NCHW", "OIHW", "NCHW")``.

    The spatial dimensions are in the order of the second string. None is NCHW, OIHW and NCHW for
    any number of spatial dimensions.

    Example:
        >>> from lowering import xla_client as xc
        >>> numbers = xc.make_convolution_dimension_numbers(("NHWC", "HWIO", "NHWC"), 2)
        >>> numbers.kernel_spatial_dimensions, numbers.kernel_output_feature_dimension
        ([0, 1], 3)
    """
    if dimension_numbers is None:
        spatial = "0123456789"[:num_spatial_dimensions]
        dimension_numbers = f"NC{spatial}", f"OI{spatial}", f"NC{spatial}"
    if isinstance(dimension_numbers, ConvolutionDimensionNumbers):
        return dimension_numbers
    if not isinstance(dimension_numbers, tuple):
        rule = "expected three strings"
        fix = "write for instance ('NCHW', 'OIHW', 'NCHW')"
        raise error_of(
            OperandError,
            "make_convolution_dimension_numbers",
            rule,
            fix,
            got=brief(dimension_numbers),
        )
    lhs, rhs, out = dimension_numbers
    window = [label for label in rhs if label not in "IO"]
    return ConvolutionDimensionNumbers(
        lhs.index("N"),
        lhs.index("C"),
        [lhs.index(label) for label in window],
        rhs.index("I"),
        rhs.index("O"),
        [rhs.index(label) for label in window],
        out.index("N"),
        out.index("C"),
        [out.index(label) for label in window],
    )


@dataclass
class PrecisionConfig:
    """The precisions of the two operands of a dot product or a convolution; none for DEFAULT."""

    Precision: ClassVar[type[PrecisionConfig_Precision]] = PrecisionConfig_Precision
    operand_precision: list[PrecisionConfig_Precision] = field(default_factory=list)

    def new(self) -> tuple[xb.Precision, xb.Precision] | None:
        """Return the value for the new API."""
        kind = PrecisionConfig_Precision
        names = [member(kind, "PrecisionConfig", p).name for p in self.operand_precision]
        if not names:
            return None
        if len(names) > 2:
            rule = "operand_precision must have two members"
            raise error_of(OperandError, "PrecisionConfig", rule, got=names)
        return xb.Precision[names[0]], xb.Precision[names[-1]]


@dataclass
class ResultAccuracy:
    """The accuracy of a transcendental function: a mode, or tolerances."""

    mode: ResultAccuracy_Mode = ResultAccuracy_Mode.DEFAULT
    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    def new(self) -> xb.ResultAccuracy | None:
        """Return the value for the new API."""
        mode = member(ResultAccuracy_Mode, "ResultAccuracy", self.mode)
        if self.atol or self.rtol or self.ulps:
            return xb.ResultAccuracy(self.atol, self.rtol, self.ulps)
        return None if mode is ResultAccuracy_Mode.DEFAULT else xb.ResultAccuracy(mode="HIGHEST")


@dataclass
class GatherDimensionNumbers(_DimensionNumbers):
    """See `builder.GatherDimensionNumbers`."""

    offset_dims: list[int] = field(default_factory=list)
    collapsed_slice_dims: list[int] = field(default_factory=list)
    start_index_map: list[int] = field(default_factory=list)
    index_vector_dim: int = 0


@dataclass
class ScatterDimensionNumbers(_DimensionNumbers):
    """See `builder.ScatterDimensionNumbers`."""

    update_window_dims: list[int] = field(default_factory=list)
    inserted_window_dims: list[int] = field(default_factory=list)
    scatter_dims_to_operand_dims: list[int] = field(default_factory=list)
    index_vector_dim: int = 0


@dataclass
class ReplicaGroup:
    """The numbers of the replicas of one group."""

    replica_ids: list[int] = field(default_factory=list)


@reporting("make_replica_groups")
def make_replica_groups(replica_groups: Iterable[Iterable[int]] | None) -> list[ReplicaGroup]:
    """Return a ReplicaGroup for each sequence of numbers; None is one group of all replicas.

    Example:
        >>> from lowering import xla_client as xc
        >>> [group.replica_ids for group in xc.make_replica_groups([[0, 1], [2]])]
        [[0, 1], [2]]
    """
    groups = () if replica_groups is None else replica_groups
    return [ReplicaGroup([int(number) for number in group]) for group in groups]


@dataclass
class ChannelHandle:
    """See `builder.ChannelHandle`."""

    type: ChannelHandle_ChannelType = ChannelHandle_ChannelType.CHANNEL_TYPE_INVALID
    handle: int = 0

    def new(self) -> xb.ChannelHandle | int:
        """Return the value for the new API."""
        kind = member(ChannelHandle_ChannelType, "ChannelHandle", self.type)
        if kind is ChannelHandle_ChannelType.CHANNEL_TYPE_INVALID:
            return self.handle  # each op has its own type
        return xb.ChannelHandle(self.handle, xb.ChannelType[kind.name])


class FrontendAttributes(dict[str, str]):
    """The frontend attributes of ops, by name."""


@dataclass
class OpMetadata:
    """The type, the name and the source line of an op."""

    op_type: str | None = ""
    op_name: str | None = ""
    source_file: str | None = ""
    source_line: int | None = 0

    def new(self) -> dict[str, Any]:
        """Return the arguments of `builder.XlaBuilder.op_metadata`."""
        names = {"op_type": self.op_type or None, "op_name": self.op_name or None}
        if self.source_file and self.source_line:
            return {**names, "source_file": self.source_file, "source_line": self.source_line}
        return names


def CurrentSourceInfoMetadata(
    op_type: str | None = None, op_name: str | None = None, skip_frames: int = 1
) -> OpMetadata:
    """Return an OpMetadata with the file name and the line of the caller.

    Ops have the line of the caller anyway, and the whole path of its file.

    Example:
        >>> from lowering import xla_client as xc
        >>> xc.CurrentSourceInfoMetadata("Add").op_type
        'Add'
    """
    frame = inspect.stack()[skip_frames]
    return OpMetadata(op_type, op_name, Path(frame.filename).name, frame.lineno)


_PADDING: Final = {"VALID": PaddingType.VALID, "SAME": PaddingType.SAME}


def window_padding_type_to_pad_values(
    padding_type: PaddingType | str,
    lhs_dims: Sequence[int],
    rhs_dims: Sequence[int],
    window_strides: Sequence[int],
) -> list[tuple[int, int]]:
    """Return the padding (low, high) of each dimension for "VALID" or "SAME".

    The ops of `builder` accept "VALID" and "SAME" as their padding.

    Raises:
        TypeError: `padding_type` is neither a PaddingType nor a string.
        ValueError: the string is neither "VALID" nor "SAME".

    Example:
        >>> from lowering import xla_client as xc
        >>> xc.window_padding_type_to_pad_values("SAME", (5, 4), (3, 2), (2, 1))
        [(1, 1), (0, 1)]
    """
    if isinstance(padding_type, str):
        kind = _PADDING.get(padding_type.upper())
        if kind is None:
            rule = f"expected 'VALID' or 'SAME', got {brief(padding_type)}"
            raise ValueError(f"window_padding_type_to_pad_values: {rule}")
        padding_type = kind
    if not isinstance(padding_type, PaddingType):
        rule = "padding_type must be a str or a PaddingType"
        raise error_of(
            OperandError, "window_padding_type_to_pad_values", rule, got=brief(padding_type)
        )
    if padding_type is PaddingType.VALID:
        return [(0, 0)] * len(window_strides)
    results = -(-np.asarray(lhs_dims) // np.asarray(window_strides))
    total = np.maximum((results - 1) * window_strides + rhs_dims - lhs_dims, 0)
    return [(int(size) // 2, int(size) - int(size) // 2) for size in total]
