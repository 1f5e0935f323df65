"""OpSharding: the sharding of an op as a protocol buffer, with the text that `builder` takes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from builder.errors import OperandError, error_of
from lowering.xla_client.enums import OpSharding_Type, member


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
