"""The shardings of a module, and how XLA partitions it.

A module has shardings in one of two forms. GSPMD's form is text, such as
``mhlo.sharding = "{devices=[2,4]<=[8]}"``, on arguments, results and operations. Shardy's form
names the axes of a mesh, such as ``sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>``, and has
further operations. XLA has a partitioner for each, and neither reports errors: XLA ignores text
that it can't parse, drops axes or pads if sizes are not divisible, and jaxlib 0.12 aborts on a
module with both forms. So all shardings are checked here before XLA compiles the module.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from builder.errors import ShapeTextError, error_of, statement_of
from builder.sharding.tiling import Tiling, parse_tilings
from builder.types.shape import ArrayShape, ProgramShape, TokenShape
from lowering.errors import CompileError, recorded_at
from lowering.mlir.attributes import ALIASING
from lowering.mlir.operations import (
    argument_attributes,
    attribute_text,
    main_function,
    operations_in,
    symbol_name,
)
from lowering.pjrt.host_arrays import NamedLeaf, program_leaves
from lowering.sharding.texts import GSPMD, SHARDY


@dataclass(frozen=True, slots=True)
class Partitioning:
    """How XLA partitions a program.

    Attributes:
        is_shardy: whether the partitioner is Shardy; else it is GSPMD.
        axes: names and sizes of the axes of the module's mesh; empty for GSPMD.
        device_order: the numbers of the partitions in the order of the mesh; empty for 0, 1, 2, ...
        is_free: for each result whether XLA may choose its sharding.
    """

    is_shardy: bool
    axes: tuple[tuple[str, int], ...] = ()
    device_order: tuple[int, ...] = ()
    is_free: tuple[bool, ...] = ()


def partition_counts(tiling: Tiling) -> tuple[int, ...] | None:
    """The number of shards along each dimension of an array.

    The tuple is empty if the array is replicated on all devices. Return None for a tiling that is
    neither replicated nor tiled, such as a manual one.
    """
    if tiling.kind in ("replicated", "unknown"):
        return ()
    if tiling.kind != "tiled" or set(tiling.subgroups) - {"replicated"}:
        return None
    return tiling.tiles[: len(tiling.tiles) - len(tiling.subgroups)]


def read_partitioning(
    module: ir.Operation, name: str, shape: ProgramShape, num_replicas: int, num_partitions: int
) -> Partitioning | None:
    """Return how XLA partitions a program; None if XLA does not partition the program.

    XLA partitions a program if it is compiled for several partitions, and an argument, a result or
    an operation has a sharding.

    Args:
        module: the operation of a verified module.
        name: the computation's name, for messages.
        shape: the parameters and the result of the module.
        num_replicas, num_partitions: the numbers that the module is compiled for.

    Raises:
        CompileError: a sharding can't be parsed, is for another number of devices, or divides an
            argument or a result into shards of different sizes; or there are shardings of both
            forms.
    """
    if num_partitions == 1:
        return None
    tilings, shardy, meshes = _read_shardings(module, name, num_partitions)
    if not (tilings or shardy):
        return None
    if tilings and shardy:
        raise CompileError(
            "a module must have shardings of one form only",
            got=f"{GSPMD}{tilings[0]} and {SHARDY}{shardy[0]}",
            context=("compile", name),
            fix="write all shardings as tilings, or all with a mesh",
        )
    if num_replicas > 1:
        raise CompileError(
            "a program with shardings must run on one replica",
            got=f"num_replicas={num_replicas}",
            context=("compile", name),
            fix=f"pass num_partitions={num_replicas * num_partitions} without num_replicas, and "
            "use shardings that replicate arrays along one more mesh axis",
        )
    is_shardy = bool(shardy)
    mesh = _NO_MESH
    if is_shardy:
        with_axes = [mesh for mesh in meshes.values() if mesh.axes]
        for mesh in with_axes:
            size = math.prod(size for _, size in mesh.axes)
            if size != num_partitions:
                raise _wrong_size(name, num_partitions, "the mesh", str(dict(mesh.axes)), size)
        mesh = next(iter(with_axes), _NO_MESH)
    key = SHARDY if is_shardy else GSPMD
    main = main_function(module)
    arguments, values = program_leaves(shape)
    parameters = _with_shardings(arguments, main, "arg_attrs", key)
    results = _with_shardings(values, main, "res_attrs", key)
    for leaf in (*parameters, *results):
        _check_even(leaf, name, meshes)
    aliased = _check_aliases(parameters, results, name, meshes)
    # XLA may not choose the sharding of a result in the memory of an argument.
    is_free = [leaf.sharding is None and n not in aliased for n, leaf in enumerate(results)]
    return Partitioning(is_shardy, mesh.axes, mesh.device_order, tuple(is_free))


class _Mesh(NamedTuple):
    """A mesh of a module: names and sizes of its axes, and the order of its devices."""

    axes: tuple[tuple[str, int], ...]
    device_order: tuple[int, ...]


_NO_MESH: Final = _Mesh((), ())


def _mesh(attribute: ir.Attribute) -> _Mesh:
    mesh = sdy.MeshAttr(attribute)
    axes = [sdy.MeshAxisAttr(axis) for axis in mesh.axes]
    return _Mesh(tuple((axis.name, axis.size) for axis in axes), tuple(mesh.device_ids))


def _read_shardings(
    module: ir.Operation, name: str, num_partitions: int
) -> tuple[list[str], list[str], dict[str, _Mesh]]:
    """Check all tilings of a module.

    Returns:
        The source locations of the shardings of each form, for messages, and the meshes by name.
    """
    tilings: list[tuple[ir.Attribute, str]] = []
    shardy: list[str] = []
    meshes: dict[str, _Mesh] = {}
    for operation in operations_in(module):
        attributes = operation.attributes
        where = recorded_at(operation.location)
        if operation.name == "sdy.mesh":
            meshes[symbol_name(operation)] = _mesh(attributes["mesh"])
        elif operation.name.startswith("sdy.") or SHARDY in attributes:
            shardy.append(where)
        if GSPMD in attributes:
            tilings.append((attributes[GSPMD], where))
        if operation.name == "func.func":
            for key in ("arg_attrs", "res_attrs"):
                for entries in argument_attributes(operation, key):
                    if GSPMD in entries:
                        tilings.append((entries[GSPMD], ""))
                    if SHARDY in entries:
                        shardy.append("")
    checked: set[ir.Attribute] = set()
    for attribute, where in tilings:
        if attribute not in checked:
            checked.add(attribute)
            _check_tiling(attribute, where, name, num_partitions)
    return [where for _, where in tilings], shardy, meshes


def _check_tiling(attribute: ir.Attribute, where: str, name: str, num_partitions: int) -> None:
    """Raise CompileError for a tiling that XLA would ignore."""
    try:
        tilings = parse_tilings(attribute_text(attribute) or "")
    except ShapeTextError as error:
        reason = statement_of(error, ("tiling text",))
        raise CompileError(
            f"the sharding {attribute}{where} can't be parsed: {reason}",
            context=("compile", name),
            fix='write a sharding in XLA\'s syntax, "{devices=[2,4]<=[8]}" or "{replicated}"',
        ) from None
    for tiling in tilings if isinstance(tilings, tuple) else (tilings,):
        size = len(tiling.devices)
        if tiling.kind == "tiled" and size != num_partitions:
            raise _wrong_size(name, num_partitions, f"a sharding{where}", tiling.text, size)


def _wrong_size(name: str, num_partitions: int, what: str, text: str, size: int) -> CompileError:
    rule = f"{name}: {what} is over {size} devices"
    fix = f"call lowering.compile(computation, num_partitions={size})"
    return error_of(
        CompileError, "compile", rule, fix, got=f"num_partitions={num_partitions} for {text}"
    )


class _Leaf(NamedTuple):
    """An array or token of the parameters or of the result, and its sharding."""

    place: str
    shape: ArrayShape | TokenShape
    sharding: ir.Attribute | None
    aliased_result: int | None


def _with_shardings(
    leaves: Sequence[NamedLeaf], main: ir.Operation, attributes_key: str, sharding_key: str
) -> list[_Leaf]:
    sharded = []
    for leaf, attributes in zip(leaves, argument_attributes(main, attributes_key), strict=True):
        alias = ir.IntegerAttr(attributes[ALIASING]).value if ALIASING in attributes else None
        sharded.append(_Leaf(*leaf, attributes.get(sharding_key), alias))
    return sharded


def _check_even(leaf: _Leaf, name: str, meshes: Mapping[str, _Mesh]) -> None:
    """Raise CompileError for an array whose shards would differ in size."""
    if leaf.sharding is None or not isinstance(leaf.shape, ArrayShape):
        return
    place, shape = f"{leaf.place} of {name}", leaf.shape
    counts = _shard_counts(leaf.sharding, place, shape, meshes)
    for dimension, (size, count) in enumerate(zip(shape.dimensions, counts, strict=True)):
        if size % count:
            raise CompileError(
                f"dimension {dimension} of {place} must be divisible into {count} shards",
                got=f"{shape} with the sharding {attribute_text(leaf.sharding) or leaf.sharding}",
                context=("compile",),
                fix=f"pad the dimension to {-(-size // count) * count}, or do not shard it",
                shapes={place: shape},
            )


def _check_aliases(
    parameters: Sequence[_Leaf], results: Sequence[_Leaf], name: str, meshes: Mapping[str, _Mesh]
) -> set[int]:
    """Check that results that alias arguments have as many shards as the arguments.

    Returns:
        The numbers of the results that are written to the memory of arguments.
    """
    aliased = set()
    for parameter in parameters:
        if parameter.aliased_result is None:
            continue
        aliased.add(parameter.aliased_result)
        result = results[parameter.aliased_result]
        if result.sharding is None or not isinstance(parameter.shape, ArrayShape):
            continue  # it gets the sharding of the argument
        counts = [
            1
            if leaf.sharding is None
            else math.prod(_shard_counts(leaf.sharding, leaf.place, leaf.shape, meshes))
            for leaf in (parameter, result)
            if isinstance(leaf.shape, ArrayShape)
        ]
        if len({*counts}) > 1:
            raise CompileError(
                f"{result.place} of {name} is written to the memory of "
                f"{parameter.place}: both must have the same number of shards",
                got=f"{counts[1]} and {counts[0]}",
                context=("compile",),
                fix="give both the same sharding, or remove the sharding of the result",
                shapes={parameter.place: parameter.shape},
            )
    return aliased


def _shard_counts(
    sharding: ir.Attribute, place: str, shape: ArrayShape, meshes: Mapping[str, _Mesh]
) -> Sequence[int]:
    """The number of shards along each dimension of an array."""
    text = attribute_text(sharding)
    if text is None:
        return _axis_counts(sharding, meshes)
    tiling = parse_tilings(text)
    counts = None if isinstance(tiling, tuple) else partition_counts(tiling)
    if counts is None:
        fix = 'write the sharding as "{replicated}" or "{devices=[2,4]<=[8]}"'
        if "manual" in text:
            fix = "remove all shardings: each partition then has its own arrays"
        raise CompileError(
            "arguments and results must be replicated or tiled",
            got=f"{shape} with the sharding {text}",
            context=("compile", place),
            fix=fix,
            shapes={place: shape},
        )
    if not counts and "devices" not in text:
        return (1,) * shape.rank
    if len(counts) != shape.rank:
        rule = f"{place}: a sharding must have a number for each dimension"
        fix = f"write {shape.rank} numbers, 1 for each dimension that is not sharded"
        raise error_of(
            CompileError, "compile", rule, fix, got=f"{shape} with {text}", shapes={place: shape}
        )
    return counts


def _axis_counts(attribute: ir.Attribute, meshes: Mapping[str, _Mesh]) -> Sequence[int]:
    """The number of shards along each dimension, for a sharding of Shardy."""
    sharding = sdy.TensorShardingAttr(attribute)
    mesh = sharding.mesh_or_ref
    is_inline = not isinstance(mesh, ir.FlatSymbolRefAttr)
    sizes = dict((_mesh(mesh) if is_inline else meshes[ir.FlatSymbolRefAttr(mesh).value]).axes)
    counts = []
    for dimension in sharding.dimension_shardings:
        count = 1
        for entry in sdy.DimensionShardingAttr(dimension).axes:
            axis = sdy.AxisRefAttr(entry)
            part = axis.sub_axis_info
            count *= sizes[axis.name] if part is None else sdy.SubAxisInfoAttr(part).size
        counts.append(count)
    return counts
