"""What ops, computations, builders and shardings show in notebooks and terminals."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import singledispatch
from itertools import product
from linecache import getline
from typing import Final

from builder.errors import XlaError, statement_of
from builder.graph.computation import XlaComputation
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp, is_constant
from builder.inspection.parts import (
    Cell,
    CellGrid,
    Column,
    Fold,
    Heading,
    Part,
    ProgramText,
    TextTable,
)
from builder.inspection.rendering import bytes_text
from builder.inspection.table import Section, count_text, sections_of, source_hover
from builder.sharding.mesh import Mesh, MeshSharding
from builder.sharding.tiling import Tiling, parse_tiling
from builder.support.frames import user_frame
from builder.types.shape import ProgramShape, Shape, has_unbounded_sizes, leaves

_ROWS: Final = 30
_FOLDED_ROWS: Final = 500
_CALLED: Final = 40
_WITH_HLO_TEXT: Final = 300
_MAX_CONSTANT: Final = 1000
_LARGE_CONSTANT: Final = re.compile(r"\bconstant\(\{[^\n\"]{200,}?\}\)(?=,|$)", re.MULTILINE)
_MAX_CELLS: Final = 256
_LINES_BEFORE: Final = 2


@singledispatch
def parts_of(shown: object) -> list[Part]:
    """Return what an object shows."""
    # Reached only by a new class that is `Displayed` and has no function below.
    raise NotImplementedError(f"{type(shown).__name__} defines no _parts")


# With the class as an argument, because evaluating annotations takes milliseconds.
@parts_of.register(XlaError)
def _error_parts(error: XlaError) -> list[Part]:
    """Return what an error shows: its rule, the user's lines, the operands, the fix."""
    statement = statement_of(error).removesuffix(", got")  # the operands follow in a table
    first, _, others = (statement + error._details()).partition("\n")
    parts: list[Part] = [Heading(type(error).__name__, error.location or "", first)]
    if others:
        parts.append(ProgramText(others, "print(error)"))
    place = user_frame(error)
    if place is not None:
        parts += _source_lines(*place)
    if error.shapes:
        rows = [[name, str(shape)] for name, shape in error.shapes.items()]
        parts.append(TextTable("", (Column("operand", no_wrap=True), Column("shape")), rows))
    if error.fix:
        parts.append(TextTable("", (Column("", no_wrap=True), Column("")), [["fix", error.fix]]))
    return parts


def _source_lines(file: str, line: int) -> Iterator[Part]:
    """Return the lines around a line of a file or of a cell, which is marked."""
    first = max(line - _LINES_BEFORE, 1)
    lines = [(n, getline(file, n).rstrip()) for n in range(first, line + 2)]
    while lines and not lines[-1][1]:
        lines.pop()
    text = "\n".join(f"{'→' if n == line else ' '} {n:>4}  {code}" for n, code in lines)
    if text:
        yield ProgramText(text, "the file")


@parts_of.register(XlaOp)
def _op_parts(op: XlaOp) -> list[Part]:
    """Return what an op shows: shape, operands, attributes, sharding and source."""
    from builder.inspection.table import abbreviated, value_text

    metadata = op.metadata
    others = {} if metadata is None else dict(metadata.frontend_attributes or {})
    rows = [
        ("shape", str(op.shape)),
        *((f"operand {i}", repr(o)) for i, o in enumerate(op.operands[:_ROWS])),
        *([("", f"{len(op.operands) - _ROWS:,} more")] if len(op.operands) > _ROWS else []),
        *((name, value_text(value)) for name, value in op.attributes.items()),
        *(("frontend attribute", f"{name}={value}") for name, value in others.items()),
        *([("type", op.op_type)] if op.op_type else []),
        *([("sharding", str(op.sharding))] if op.sharding is not None else []),
        ("source", source_hover(op).replace("\n", ": ") or "unknown"),
        ("recorded by", repr(op.builder)),
    ]
    cells = [[name, abbreviated(str(text))] for name, text in rows]
    columns = (Column("", no_wrap=True), Column(""))
    name = f"%{op.id}" if op.name is None else f"%{op.id} {op.name!r}"
    return [Heading(op.opcode, name), TextTable("", columns, cells)]


@parts_of.register(XlaBuilder)
def _builder_parts(builder: XlaBuilder) -> list[Part]:
    """Return what a builder shows: its state and its parameters."""
    state = "built" if builder.built else "open"
    parameters = [builder.parameters[number] for number in sorted(builder.parameters)]
    rows = [[str(op.name), str(op.shape), _size_text(op.shape)] for op in parameters]
    ops = count_text(len(builder.ops))
    parts: list[Part] = [Heading("XlaBuilder", builder.name, f"{state}, {ops} recorded")]
    return [*parts, TextTable("", _SIGNATURE_COLUMNS, rows)] if rows else parts


@parts_of.register(XlaComputation)
def _computation_parts(computation: XlaComputation) -> list[Part]:
    """Return what a computation shows: signature, ops, and the computations that it applies."""
    called = computation.called_computations()[::-1]
    sections = sections_of(computation, nested=True)
    total = sum(len(section.ops) for section in sections)
    description = count_text(total)
    if called:
        description += f" in {count_text(len(called) + 1, 'computation')}"
    parts: list[Part] = [
        Heading("XlaComputation", computation.name, description),
        signature_table(computation.program_shape),
        *_equal_sizes(computation),
        *_op_tables(sections[0]),
    ]
    inner: list[Part] = []
    for callee, section in list(zip(called, sections[1:], strict=True))[:_CALLED]:
        summary = f"%{section.name} {callee.signature}, {count_text(len(section.ops))}"
        inner.append(Fold(summary, list(_op_tables(section))))
    if len(called) > _CALLED:
        inner.append(f"{len(called) - _CALLED:,} more computations; table(nested=True) has all")
    if inner:
        parts.append("applied computations:")
    parts += inner
    every = [op for section in sections for op in section.ops] if total <= _WITH_HLO_TEXT else []
    constants = (op.attributes["value"].size for op in every if is_constant(op))
    if every and sum(constants) <= _MAX_CONSTANT:
        # XLA abbreviates the constants in its dumps in the same way.
        text = _LARGE_CONSTANT.sub("constant({...})", str(computation))
        parts.append(Fold("HLO text", [ProgramText(text, "print(computation)")]))
    return parts


def _equal_sizes(computation: XlaComputation) -> Iterator[Part]:
    """Return a table of the unbounded sizes that are equal or fixed, if there are any."""
    if not any(has_unbounded_sizes(parameter.shape) for parameter in computation.parameters):
        return
    sizes = [size for size in computation.open_sizes() if "=" in str(size)]
    if sizes:
        columns = (Column("equal sizes"),)
        yield TextTable("", columns, [[str(size)] for size in sizes[:_ROWS]])


def _op_tables(section: Section) -> Iterator[Part]:
    """Return a table of the first ops, and a fold with a table of the next ones."""
    ops, count = section.ops, len(section.ops)
    yield section.text_table(ops[:_ROWS], "")
    if count > _ROWS:
        folded: list[Part] = [section.text_table(ops[_ROWS : _ROWS + _FOLDED_ROWS], "")]
        omitted = count - _ROWS - _FOLDED_ROWS
        if omitted > 0:
            folded.append(f"{count_text(omitted)} more; table(limit=None) has all")
        yield Fold(count_text(count - _ROWS, "more op"), folded)


_SIGNATURE_COLUMNS: Final = (
    Column("parameter", no_wrap=True, style="magenta"),
    Column("shape", style="green"),
    Column("size", is_number=True),
)


def signature_table(shape: ProgramShape) -> TextTable:
    """Return a table of the parameters and the result of a program."""
    named = list(zip(shape.parameter_names, shape.parameters, strict=True))
    rows = [[name, str(parameter), _size_text(parameter)] for name, parameter in named]
    if len(rows) > _ROWS:
        rows[_ROWS:] = [[f"{len(rows) - _ROWS:,} more", "", ""]]
    rows.append(["→ result", str(shape.result), _size_text(shape.result)])
    return TextTable("", _SIGNATURE_COLUMNS, rows)


def _size_text(shape: Shape) -> str:
    """Return the size of the arrays of a shape, "" if it is not static."""
    if not shape.is_static:
        return ""
    return bytes_text(sum(getattr(leaf, "byte_size", 0) for leaf in leaves(shape)))


# Shardings


@parts_of.register(Mesh)
def _mesh_parts(mesh: Mesh) -> list[Part]:
    """Return what a mesh shows: its axes, and its devices as a grid."""
    axes = ", ".join(f"{name}={size}" for name, size in mesh.axes)
    numbers = [[number] for number in mesh.devices or range(mesh.size)]
    names = [f"{name} " for name in mesh.axis_names]
    parts = _grids(mesh.axis_sizes, numbers, names)
    return [Heading("Mesh", mesh.name, f"{axes}: {count_text(mesh.size, 'device')}"), *parts]


@parts_of.register(MeshSharding)
def _sharding_parts(sharding: MeshSharding) -> list[Part]:
    """Return what a sharding shows: the devices of each part of an array."""
    mesh = sharding.mesh
    axes = ", ".join(f"{name}={size}" for name, size in mesh.axes)
    heading = Heading("MeshSharding", str(sharding), f"mesh {mesh.name}: {axes}")
    tiling = parse_tiling(sharding.tiling)
    if tiling.kind == "replicated":
        return [heading, "each device has the array"]
    return [heading, *_tiling_grids(tiling)]


@parts_of.register(Tiling)
def _tiling_parts(tiling: Tiling) -> list[Part]:
    """Return what a tiling shows: the devices of each part of an array."""
    heading = Heading("Tiling", tiling.text)
    if tiling.kind == "tiled":
        return [heading, *_tiling_grids(tiling)]
    holders = {
        "replicated": "each device has the array",
        "maximal": f"device {tiling.devices[0] if tiling.devices else 0} has the array",
        "manual": "each device has an array of its own",
    }
    return [heading, holders.get(tiling.kind, tiling.kind)]


def _tiling_grids(tiling: Tiling) -> list[Part]:
    rank = tiling.rank or 0
    tiles, subgroups = tiling.tiles[:rank], tiling.tiles[rank:]
    size = 1
    for count in subgroups:
        size *= count
    devices = tiling.devices
    holders = [list(devices[i : i + size]) for i in range(0, len(devices), size)]
    note = "" if size == 1 else f"each part is on {size:,} devices ({', '.join(tiling.subgroups)})"
    divided = [d for d in range(rank) if tiles[d] > 1]
    names = [f"dimension {d}: " for d in divided[:-2]] + [""] * len(divided[-2:])
    axes = f"dimension {divided[-1]} across" if divided else ""
    if len(divided) > 1:
        axes = f"dimension {divided[-2]} down, {divided[-1]} across"
    notes = [text for text in (axes and f"parts along {axes}", note) if text]
    return ["; ".join(notes), *_grids([tiles[d] for d in divided], holders, names)]


def _grids(
    sizes: Sequence[int], holders: Sequence[Sequence[int]], names: Sequence[str]
) -> list[Part]:
    """Return grids of the devices of each part, one for each index of the outer dimensions.

    Args:
        sizes: the number of parts along each dimension.
        holders: the devices of each part, in row-major order.
        names: the heading of an index of each dimension.
    """
    # Dimensions that are not partitioned would waste a row or a grid each.
    kept = [(size, name) for size, name in zip(sizes, names, strict=True) if size > 1]
    sizes = [size for size, _ in kept]
    names = [name for _, name in kept]
    if len(holders) > _MAX_CELLS:
        return [f"{len(holders):,} parts, which are not drawn"]
    rows = sizes[-2] if len(sizes) > 1 else 1
    columns = sizes[-1] if sizes else 1
    grids: list[Part] = []
    for number, index in enumerate(product(*map(range, sizes[:-2]))):
        title = ", ".join(f"{name}{i}" for name, i in zip(names, index, strict=False))
        first = number * rows * columns
        lines = []
        for row in range(rows):
            begin = first + row * columns
            cells = [
                Cell(", ".join(map(str, holders[part])), part)
                for part in range(begin, begin + columns)
            ]
            lines.append((f"{names[-2]}{row}" if len(sizes) > 1 else "device", cells))
        headings = [f"{names[-1]}{column}" for column in range(columns)] if sizes else [""]
        grids.append(CellGrid(title, headings, lines))
    return grids
