"""Whether XLA cuts a program up over partitions, and by what a module says of it.

There are two languages for it. GSPMD's is text, ``mhlo.sharding = "{devices=[2,4]<=[8]}"``, on
arguments, results and operations; Shardy's names the axes of a mesh,
``sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>``, and has operations besides. XLA has a
partitioner for each, and takes what it is given as it comes: a text that it can't read it drops
without a word, of sizes that do not divide it drops axes or pads, and jaxlib 0.12 dies of a module
that speaks both. So all of it is read here before XLA sees it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from builder.errors import ShapeTextError
from builder.sharding.tiling import Tiling, parse_tilings
from builder.types.shape import ArrayShape, ProgramShape, Shape, TokenShape, leaves
from lowering.errors import CompileError, recorded_at
from lowering.mlir.donations import ALIASING
from lowering.mlir.flattening import leaf_paths
from lowering.mlir.types import attribute_text
from lowering.sharding.attributes import GSPMD, SHARDY

__all__ = ["Partitioning", "main_function", "partition_counts", "read_partitioning"]


@dataclass(frozen=True, slots=True)
class Partitioning:
    """By which of its partitioners XLA cuts a program up, and what is left to it.

    Attributes:
        is_shardy: Shardy, and not GSPMD.
        axes: names and sizes of the axes of the module's mesh; empty for GSPMD.
        device_order: the numbers of the partitions in the order of the mesh; empty for 0, 1, 2, ...
        is_free: for each result whether XLA may choose how it is cut up.
    """

    is_shardy: bool
    axes: tuple[tuple[str, int], ...] = ()
    device_order: tuple[int, ...] = ()
    is_free: tuple[bool, ...] = ()


def partition_counts(tiling: Tiling) -> tuple[int, ...] | None:
    """Into how many parts a tiling cuts each dimension of an array.

    Empty where the array is whole on all devices; None where it is neither whole nor in tiles.
    """
    if tiling.kind in ("replicated", "unknown"):
        return ()
    if tiling.kind != "tiled" or set(tiling.subgroups) - {"replicated"}:
        return None
    return tiling.tiles[: len(tiling.tiles) - len(tiling.subgroups)]


def main_function(module: ir.Operation) -> ir.Operation:
    """The function that is entered."""
    for view in module.regions[0].blocks[0].operations:
        operation: ir.Operation = view.operation
        if operation.name == "func.func" and (
            attribute_text(operation.attributes["sym_name"]) == "main"
        ):
            return operation
    raise AssertionError("a module that was loaded has a @main")


def read_partitioning(
    module: ir.Operation, name: str, shape: ProgramShape, num_replicas: int, num_partitions: int
) -> Partitioning | None:
    """How XLA is to cut a program up; None if each partition has arrays of its own.

    This is the one place where that is decided: a program is cut up if it is compiled for several
    partitions, and an argument, a result or an operation in it has a sharding.

    Args:
        module: the operation of a verified module.
        name: the computation's name, for messages.
        shape: parameters and result, as the module has them.
        num_replicas, num_partitions: for how many it is compiled.

    Raises:
        CompileError: a sharding can't be read, is for another number of devices, leaves shards of
            uneven size in an argument or a result, or there are shardings of both languages.
    """
    if num_partitions == 1:
        return None
    found = _Walker(name, num_partitions)
    module.walk(found.visit)
    if found.error is not None:
        raise found.error
    if not (found.tilings or found.shardy):
        return None
    if found.tilings and found.shardy:
        raise CompileError(
            f"compile: {name} has shardings of two kinds, {GSPMD}{found.tilings[0]} and "
            f"{SHARDY}{found.shardy[0]}\nfix: say all of them as tilings, or all with a mesh"
        )
    if num_replicas > 1:
        raise CompileError(
            f"compile: {name} has shardings, and a program that XLA cuts up runs on one replica, "
            f"got num_replicas={num_replicas}\n"
            f"fix: num_partitions={num_replicas * num_partitions}, and shardings over as many "
            f"devices: with one more axis, along which arrays are whole"
        )
    is_shardy = bool(found.shardy)
    for mesh in found.meshes.values() if is_shardy else ():
        size = math.prod(count for _, count in mesh.axes)
        if mesh.axes and size != num_partitions:
            raise _wrong_size(name, num_partitions, "the mesh", str(dict(mesh.axes)), size)
    key = SHARDY if is_shardy else GSPMD
    main = main_function(module)
    parameters = [
        pair
        for parameter, one in zip(shape.parameter_names, shape.parameters, strict=True)
        for pair in _places(f"parameter {parameter}", one)
    ]
    results = _places("the result", shape.result)
    entered = _attributes(main, "arg_attrs", len(parameters))
    left = _attributes(main, "res_attrs", len(results))
    for given, places in ((entered, parameters), (left, results)):
        for attributes, (place, leaf) in zip(given, places, strict=True):
            if key in attributes and isinstance(leaf, ArrayShape):
                _check_even(attributes[key], f"{place} of {name}", leaf, found.meshes)
    _check_aliases(entered, left, parameters, results, name, key, found.meshes)
    mesh = next((one for one in found.meshes.values() if one.axes), _NO_MESH)
    # A result in the memory of an argument is cut up as that one is.
    aliased = {ir.IntegerAttr(one[ALIASING]).value for one in entered if ALIASING in one}
    return Partitioning(
        is_shardy,
        mesh.axes if is_shardy else (),
        mesh.device_order if is_shardy else (),
        tuple(key not in one and number not in aliased for number, one in enumerate(left)),
    )


@dataclass(frozen=True, slots=True)
class _Mesh:
    """A mesh of a module: names and sizes of its axes, and the order of the devices in it."""

    axes: tuple[tuple[str, int], ...]
    device_order: tuple[int, ...]


_NO_MESH: Final = _Mesh((), ())


def _mesh(attribute: ir.Attribute) -> _Mesh:
    mesh = sdy.MeshAttr(attribute)
    axes = [sdy.MeshAxisAttr(one) for one in mesh.axes]
    return _Mesh(tuple((one.name, one.size) for one in axes), tuple(mesh.device_ids))


class _Walker:
    """What a walk has found; errors are kept, since MLIR's walk does not let exceptions through.

    Attributes:
        tilings, shardy: where shardings of either language are, for messages.
        meshes: by name.
    """

    def __init__(self, name: str, num_partitions: int) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.error: CompileError | None = None
        self.tilings: list[str] = []
        self.shardy: list[str] = []
        self.meshes: dict[str, _Mesh] = {}
        self.read: set[str] = set()

    def visit(self, operation: ir.Operation) -> ir.WalkResult:
        attributes = operation.attributes
        where = recorded_at(operation.location)
        if operation.name == "sdy.mesh":
            self.meshes[attribute_text(attributes["sym_name"]) or ""] = _mesh(attributes["mesh"])
        elif operation.name.startswith("sdy.") or SHARDY in attributes:
            self.shardy.append(where)
        if GSPMD in attributes:
            self.tiling(attributes[GSPMD], where)
        if operation.name == "func.func":
            for key in ("arg_attrs", "res_attrs"):
                for one in ir.ArrayAttr(attributes[key]) if key in attributes else ():
                    entries = ir.DictAttr(one)
                    if GSPMD in entries:
                        self.tiling(entries[GSPMD], "")
                    if SHARDY in entries:
                        self.shardy.append("")
        return ir.WalkResult.ADVANCE if self.error is None else ir.WalkResult.INTERRUPT

    def tiling(self, attribute: ir.Attribute, where: str) -> None:
        """Reads a tiling: XLA leaves one that it can't read out without a word."""
        self.tilings.append(where)
        shown = str(attribute)
        if shown in self.read:
            return
        self.read.add(shown)
        try:
            found = parse_tilings(attribute_text(attribute) or "")
        except ShapeTextError as error:
            reason = str(error).splitlines()[0].removeprefix("tiling text: ")
            self.error = CompileError(
                f"compile: {self.name}: something{where} has a sharding that can't be read, "
                f"{shown}: {reason}\n"
                f'fix: write one as XLA does: "{{devices=[2,4]<=[8]}}", "{{replicated}}"'
            )
            return
        for tiling in found if isinstance(found, tuple) else (found,):
            if tiling.kind == "tiled" and len(tiling.devices) != self.num_partitions:
                self.error = _wrong_size(
                    self.name,
                    self.num_partitions,
                    f"a sharding{where}",
                    tiling.text,
                    len(tiling.devices),
                )


def _wrong_size(name: str, num_partitions: int, what: str, text: str, size: int) -> CompileError:
    return CompileError(
        f"compile: {name}: {what} is over {size} devices, and the program is compiled for "
        f"num_partitions={num_partitions}, got {text}\n"
        f"fix: lowering.compile(computation, num_partitions={size})"
    )


def _places(what: str, shape: Shape) -> list[tuple[str, ArrayShape | TokenShape]]:
    paths = (f"{what}{path}" for path in leaf_paths(shape))
    return list(zip(paths, leaves(shape), strict=True))


def _attributes(main: ir.Operation, key: str, count: int) -> Sequence[Any]:
    """The attributes of all arguments or results; mappings without any where it has none."""
    if key not in main.attributes:
        return [{}] * count
    return [ir.DictAttr(one) for one in ir.ArrayAttr(main.attributes[key])]


def _check_even(
    attribute: ir.Attribute, place: str, leaf: ArrayShape, meshes: Mapping[str, _Mesh]
) -> None:
    """Raises CompileError for an array that is not cut into shards of one size."""
    text = attribute_text(attribute)
    counts = _counts(attribute, place, leaf, meshes)
    for dimension, (size, count) in enumerate(zip(leaf.dimensions, counts, strict=True)):
        if size % count:
            raise CompileError(
                f"compile: dimension {dimension} of {place} can't be cut into {count} shards of "
                f"one size, got {leaf} with the sharding {text or attribute}\n"
                f"fix: pad it to {-(-size // count) * count}, or leave the dimension whole",
                shapes={place: leaf},
            )


def _check_aliases(
    entered: Sequence[Any],
    left: Sequence[Any],
    parameters: Sequence[tuple[str, ArrayShape | TokenShape]],
    results: Sequence[tuple[str, ArrayShape | TokenShape]],
    name: str,
    key: str,
    meshes: Mapping[str, _Mesh],
) -> None:
    """Raises CompileError for a result whose shards do not fit where it is to be written."""
    for given, (place, leaf) in zip(entered, parameters, strict=True):
        if ALIASING not in given:
            continue
        number = ir.IntegerAttr(given[ALIASING]).value
        where, result = results[number]
        if key not in left[number] or not isinstance(leaf, ArrayShape):
            continue  # it is cut up as the argument is
        cut = [
            math.prod(_counts(one[key], where, array, meshes)) if key in one else 1
            for one, array in ((given, leaf), (left[number], result))
            if isinstance(array, ArrayShape)
        ]
        if len({*cut}) > 1:
            raise CompileError(
                f"compile: {where} of {name} is written to the memory of {place}, and is cut into "
                f"{cut[1]} shards where that is cut into {cut[0]}\n"
                f"fix: give both one sharding, or the result none",
                shapes={place: leaf},
            )


def _counts(
    attribute: ir.Attribute, place: str, leaf: ArrayShape, meshes: Mapping[str, _Mesh]
) -> Sequence[int]:
    """Into how many parts each dimension of an array is cut."""
    text = attribute_text(attribute)
    return _axis_counts(attribute, meshes) if text is None else _tile_counts(text, place, leaf)


def _tile_counts(text: str, place: str, leaf: ArrayShape) -> Sequence[int]:
    """Into how many parts a tiling cuts each dimension of an array."""
    tiling = parse_tilings(text)
    counts = None if isinstance(tiling, tuple) else partition_counts(tiling)
    if counts is None:
        fix = 'write it as "{replicated}" or "{devices=[2,4]<=[8]}"'
        if "manual" in text:
            fix = "leave out all shardings: each partition then has arrays of its own"
        raise CompileError(
            f"compile: the sharding of {place}, {leaf}, is {text}, and arrays enter and leave a "
            f"program whole or in tiles\nfix: {fix}",
            shapes={place: leaf},
        )
    if not counts and "devices" not in text:
        return (1,) * leaf.rank
    if len(counts) != leaf.rank:
        raise CompileError(
            f"compile: the sharding of {place} is of {len(counts)} dimensions, "
            f"got {leaf} with {text}\n"
            f"fix: give it a number for each dimension, 1 for those that stay whole",
            shapes={place: leaf},
        )
    return counts


def _axis_counts(attribute: ir.Attribute, meshes: Mapping[str, _Mesh]) -> Sequence[int]:
    """Into how many parts the axes of a mesh cut each dimension of an array."""
    sharding = sdy.TensorShardingAttr(attribute)
    where = sharding.mesh_or_ref
    if isinstance(where, ir.FlatSymbolRefAttr):
        sizes = dict(meshes[where.value].axes)
    else:
        sizes = dict(_mesh(where).axes)
    counts = []
    for one in sharding.dimension_shardings:
        count = 1
        for entry in sdy.DimensionShardingAttr(one).axes:
            axis = sdy.AxisRefAttr(entry)
            part = axis.sub_axis_info
            count *= sizes[axis.name] if part is None else sdy.SubAxisInfoAttr(part).size
        counts.append(count)
    return counts
