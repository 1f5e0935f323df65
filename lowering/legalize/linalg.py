"""Rewrites of linear algebra and Fourier transforms, and calls of LAPACK and cuSOLVER.

`builder.lib.linalg` records a decomposition as a `composite` operation named `xlabuilder.NAME`,
whose decomposition is a portable algorithm. `ROUTINES` has the routine of a library that computes
the same, by platform. jaxlib provides these routines as custom calls.

To add a routine: append it to `ROUTINES`. A platform has one routine for a composite. A composite
of other shapes, types or version than its routine's is not replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape, intern_array
from lowering.legalize.op_builder import (
    F32_FOR_NARROW_FLOATS,
    OpBuilder,
    array_of,
    attributes_of,
    integer_of,
    integers_of,
)
from lowering.legalize.registry import ALL_PLATFORMS, Value, refuse, rewrite
from lowering.mlir.operations import attribute_text, checked_dictionary
from lowering.stablehlo.platforms import name_in_jax

Given = Mapping[str, ir.Attribute]
"""The attributes of a composite."""


@dataclass(frozen=True, slots=True)
class Routine:
    """A routine of a library, and the composite that it computes.

    A string describes the shape of an operand or result behind its batch dimensions: a letter for
    each size, and the element type if it is not that of the first operand ("real" is its real
    type). A matrix has two letters, and the routine expects its columns in consecutive memory.
    Equal letters are equal sizes. If no operand has the size k, it is the smaller of m and n.

    Attributes:
        composite: the name of the composite, without its namespace.
        operands, results: the shapes of the composite's operands and results.
        targets: by platform, the target of the custom call for each type of the first operand.
        returned: the shapes of the routine's results.
        aliases: for each operand that a result overwrites, the position of the result.
        config: returns the routine's attributes, MLIR text by name, for those of the composite,
            or None for others than the routine supports; None if the routine has none.
        finish: creates the composite's results from the routine's; None if they are the same.
        version: the version of the composite.
    """

    composite: str
    operands: Sequence[str]
    results: Sequence[str]
    targets: Mapping[str, Mapping[PrimitiveType, str]]
    returned: Sequence[str]
    aliases: Mapping[int, int] = field(default_factory=dict)
    config: Callable[[Given], Mapping[str, str] | None] | None = None
    finish: Callable[[OpBuilder, list[Value]], list[Value]] | None = None
    version: int = 1


def lapack(real: str, complex: str = "") -> dict[PrimitiveType, str]:
    """Return the targets of custom calls of a LAPACK routine, by element type.

    Args:
        real: the name of the routine without the letter of the type, such as "getrf".
        complex: its name for complex types; "" if it is the same.
    """
    letters = {pt.f32: "s", pt.f64: "d", pt.c64: "c", pt.c128: "z"}
    return {
        t: f"lapack_{letter}{complex if complex and t.is_complex else real}_ffi"
        for t, letter in letters.items()
    }


def cusolver(name: str) -> dict[PrimitiveType, str]:
    """Return the targets of custom calls of a cuSOLVER routine: one name for all types."""
    return dict.fromkeys((pt.f32, pt.f64, pt.c64, pt.c128), f"cusolver_{name}_ffi")


def _from_zero(b: OpBuilder, results: list[Value]) -> list[Value]:
    """Count pivots from 0; LAPACK counts from 1."""
    factors, pivots, _ = results
    one = b.filled(b.array_of(pivots), 1)
    return [factors, b.elementwise("subtract", pivots, one)]


def _attributes(**texts: str) -> Callable[[Given], Mapping[str, str]]:
    """The attributes of a routine that do not depend on those of the composite."""
    return lambda _: texts


def _if_converged(*positions: int) -> Callable[[OpBuilder, list[Value]], list[Value]]:
    """Return the results at `positions`, with NaNs where the last result, the status, is not 0."""

    def finish(b: OpBuilder, results: list[Value]) -> list[Value]:
        status = results[-1]
        batch = b.array_of(status)
        converged = b.compared("EQ", status, b.filled(batch, 0))
        chosen = []
        for result in (results[position] for position in positions):
            shape = b.array_of(result)
            mask = b.spread(converged, shape, range(batch.rank))
            chosen.append(b.selected(mask, result, b.filled(shape, np.nan)))
        return chosen

    return finish


def _eigenvalues(
    composite: str, results: Sequence[str], positions: Sequence[int], mode: str
) -> tuple[Routine, Routine]:
    """The routines for Hermitian matrices; LAPACK's computes eigenvectors if the mode is V."""
    returned, finish = ["nn", "n real", " s32"], _if_converged(*positions)
    syevd = {"cpu": lapack("syevd", "heevd")}, {"cuda": cusolver("syevd")}
    configs = (
        _attributes(mode=f"{ord(mode)} : ui8", uplo=f"{ord('U')} : ui8"),
        _attributes(lower="false", algorithm="0 : ui8"),
    )
    first, second = (
        Routine(composite, ["nn"], results, targets, returned, {0: 0}, config, finish)
        for targets, config in zip(syevd, configs, strict=True)
    )
    return first, second


def _singular_values(
    composite: str, results: Sequence[str], positions: Sequence[int], mode: str
) -> tuple[Routine, Routine]:
    """The routines for matrices with m >= n, in LAPACK's modes."""
    left = "mm" if mode == "A" else "mn"
    flags = {"full_matrices": mode == "A", "compute_uv": mode != "N", "transposed": False}
    targets = {"cpu": lapack("gesdd")}, {"cuda": cusolver("gesvd")}
    configs = (
        _attributes(mode=f"{ord(mode)} : ui8"),
        _attributes(**{name: str(flag).lower() for name, flag in flags.items()}),
    )
    returned, finish = ["mn", "n real", left, "nn", " s32"], _if_converged(*positions)
    first, second = (
        Routine(composite, ["mn"], results, target, returned, {0: 0}, config, finish)
        for target, config in zip(targets, configs, strict=True)
    )
    return first, second


def letter(value: ir.Attribute | None, letters: Mapping[str, str]) -> str | None:
    """The letter, as MLIR text, that LAPACK expects for the value of an attribute.

    Args:
        value: the attribute; None if it is absent.
        letters: the letters by the text of the attribute.
    """
    found = letters.get(str(value))
    return None if found is None else f"{ord(found)} : ui8"


def _triangle(given: Given) -> dict[str, str] | None:
    config = {
        "side": letter(None, {"None": "L"}),
        "uplo": letter(given.get("lower"), {"true": "L", "false": "U"}),
        "diag": letter(given.get("unit_diagonal"), {"true": "U", "false": "N"}),
        "trans_x": letter(
            given.get("transpose_a"), {'"NO_TRANSPOSE"': "N", '"TRANSPOSE"': "T", '"ADJOINT"': "C"}
        ),
    }
    valid = {name: text for name, text in config.items() if text is not None}
    return valid if len(valid) == len(config) else None


def _cholesky_triangle(given: Given) -> dict[str, str] | None:
    # StableHLO cholesky: `lower` is false by default.
    uplo = letter(given.get("lower"), {"true": "L", "false": "U", "None": "U"})
    return None if uplo is None else {"uplo": uplo}


ROUTINES: Final = (
    Routine(
        "lu",
        ["mn"],
        ["mn", "k s32"],
        {"cpu": lapack("getrf"), "cuda": cusolver("getrf")},
        ["mn", "k s32", " s32"],
        aliases={0: 0},
        finish=_from_zero,
    ),
    Routine(
        "qr",
        ["mn"],
        ["mn", "k"],
        {"cpu": lapack("geqrf"), "cuda": cusolver("geqrf")},
        ["mn", "k"],
        aliases={0: 0},
    ),
    Routine(
        "householder_product",
        ["mn", "k"],
        ["mn"],
        {"cpu": lapack("orgqr", "ungqr"), "cuda": cusolver("orgqr")},
        ["mn"],
        aliases={0: 0},
    ),
    *_eigenvalues("eigh", ["nn", "n real"], [0, 1], "V"),
    *_eigenvalues("eigvalsh", ["n real"], [1], "N"),
    *_singular_values("svd", ["mm", "n real", "nn"], [2, 1, 3], "A"),
    *_singular_values("thin_svd", ["mn", "n real", "nn"], [2, 1, 3], "S"),
    *_singular_values("svdvals", ["n real"], [1], "N"),
    # XLA has kernels of its own for GPUs.
    Routine(
        "triangular_solve",
        ["nn", "nk"],
        ["nk"],
        {"cpu": lapack("trsm")},
        ["nk"],
        aliases={1: 0},
        config=_triangle,
    ),
    Routine(
        "tridiagonal_solve",
        ["n", "n", "n", "nk"],
        ["nk"],
        {"cpu": lapack("gtsv")},
        ["n", "n", "n", "nk", " s32"],
        aliases={0: 0, 1: 1, 2: 2, 3: 3},
        finish=_if_converged(3),
    ),
)
"""The routines that replace composites."""

_ROUTINE_OF: Final = {
    (f"xlabuilder.{one.composite}", one.version, platform): one
    for one in ROUTINES
    for platform in one.targets
}


@rewrite("stablehlo.composite", platforms=("cpu", "gpu"))
def library_call(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Decompose matrices with LAPACK or cuSOLVER instead of a portable algorithm."""
    given = operation.attributes
    version = integer_of(operation, "version") if "version" in given else 0
    routine = _ROUTINE_OF.get((attribute_text(given["name"]) or "", version, _library(b)))
    if routine is None:
        return None
    key = "composite_attributes"
    return _called(b, operation, routine, checked_dictionary(given[key]) if key in given else {})


def _called(
    b: OpBuilder, operation: ir.Operation, routine: Routine, given: Given
) -> list[Value] | None:
    """Call a routine for an operation with the attributes `given`; None if it is not for it."""
    problem = _problem(b, operation, routine)
    config = {} if routine.config is None else routine.config(given)
    if problem is None or config is None:
        return None
    rank = len(problem.batch)
    call = b.create(
        "custom_call",
        [problem.shape(text) for text in routine.returned],
        operation.operands,
        {
            "call_target_name": f'"{problem.target}"',
            "api_version": "4 : i32",
            "backend_config": f"{{{', '.join(f'{n} = {text}' for n, text in config.items())}}}",
            "operand_layouts": _layouts(routine.operands, rank),
            "result_layouts": _layouts(routine.returned, rank),
            "output_operand_aliases": _aliases(routine),
        },
    )
    results = list(call.results)
    return results if routine.finish is None else routine.finish(b, results)


_POTRF: Final = Routine(
    "",
    ["nn"],
    ["nn"],
    {"cpu": lapack("potrf")},
    ["nn", " s32"],
    aliases={0: 0},
    config=_cholesky_triangle,
)


@rewrite("stablehlo.cholesky", platforms=("cpu",))
def cholesky_by_lapack(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Decompose matrices with LAPACK, which is faster than XLA's loop over the columns.

    As in XLA, the elements of the other triangle become 0, and all elements of the result become
    NaN if the matrix is not positive definite.
    """
    results = _called(b, operation, _POTRF, attributes_of(operation))
    if results is None:
        return None
    factor, status = results
    shape = b.array_of(factor)
    indices = shape.with_element_type(pt.s32)
    row, column = b.counted(indices, shape.rank - 2), b.counted(indices, shape.rank - 1)
    is_lower = "lower" in operation.attributes and ir.BoolAttr(operation.attributes["lower"]).value
    factor = b.masked(b.compared("GE" if is_lower else "LE", row, column), factor)
    return _if_converged(0)(b, [factor, status])


@dataclass(frozen=True, slots=True)
class _Problem:
    """What a routine is called for: the target, the element type and the sizes."""

    target: str
    element_type: PrimitiveType
    batch: tuple[int, ...]
    sizes: Mapping[str, int]

    def shape(self, text: str) -> ArrayShape:
        """The shape of an operand or result."""
        letters, _, name = text.partition(" ")
        types = {"": self.element_type, "real": self.element_type.real_type, "s32": pt.s32}
        return intern_array(types[name], (*self.batch, *(self.sizes[one] for one in letters)))


def _problem(b: OpBuilder, operation: ir.Operation, routine: Routine) -> _Problem | None:
    """The problem of a composite; None if the routine is not for it."""
    values = *operation.operands, *operation.results
    shapes = [shape for value in values if (shape := b.shape(value)) is not None]
    texts = (*routine.operands, *routine.results)
    if not len(shapes) == len(values) == len(texts) or not all(one.is_static for one in shapes):
        return None
    first = shapes[0]
    target = routine.targets[_library(b)].get(first.element_type)
    rank = first.rank - len(_letters(texts[0]))
    if target is None or rank < 0 or any(0 in shape.dimensions for shape in shapes):
        return None
    sizes: dict[str, int] = {}
    for text, shape in zip(routine.operands, shapes, strict=False):
        sizes.update(zip(_letters(text), shape.dimensions[rank:], strict=False))
    if "n" in sizes:
        sizes.setdefault("k", min(sizes["n"], sizes.get("m", sizes["n"])))
    if not {*"".join(map(_letters, texts))} <= sizes.keys():
        return None
    problem = _Problem(target, first.element_type, first.dimensions[:rank], sizes)
    return problem if shapes == [problem.shape(text) for text in texts] else None


def _library(b: OpBuilder) -> str:
    """The platform, "cuda" or "rocm" instead of "gpu"."""
    devices, platform = b.target.devices, b.target.platform
    return name_in_jax(devices[0]) if devices else {"gpu": "cuda"}.get(platform, platform)


def _letters(text: str) -> str:
    return text.partition(" ")[0]


def _layouts(texts: Sequence[str], batch: int) -> str:
    """The layouts of arrays with `batch` batch dimensions: columns are contiguous in memory."""
    layouts = []
    for text in texts:
        rank = batch + len(_letters(text))
        order = list(reversed(range(rank)))
        if len(_letters(text)) == 2:
            order[:2] = order[1::-1]
        layouts.append(f"dense<{order}> : tensor<{rank}xindex>")
    return f"[{', '.join(layouts)}]"


def _aliases(routine: Routine) -> str:
    aliases = [
        f"#stablehlo.output_operand_alias<output_tuple_indices = "
        f"[{result if len(routine.returned) > 1 else ''}], operand_index = {operand}, "
        f"operand_tuple_indices = []>"
        for operand, result in routine.aliases.items()
    ]
    return f"[{', '.join(aliases)}]"


@rewrite("stablehlo.cholesky", platforms=ALL_PLATFORMS)
def cholesky(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Extend a matrix of bounded size by the identity, and decompose 8-bit floats in f32.

    XLA decomposes the matrix at its bound, including undefined elements beyond its size. It rounds
    the result of each step of the algorithm to the element type.

    Shown by: cholesky_of_a_bounded_size, cholesky_f8e4m3fn.
    """
    (a,) = operation.operands
    if not array_of(a).is_bounded:
        return None
    return _on_matrices(b, operation, [_extended_by_identity(b, a)])


@rewrite("stablehlo.triangular_solve", platforms=ALL_PLATFORMS)
def triangular_solve(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Extend a matrix of bounded size by the identity, and solve systems of 8-bit floats in f32.

    XLA does not support bounded sizes in triangular_solve. XLA rounds the result of each step of
    the algorithm to the element type.

    Shown by: triangular_solve_of_a_bounded_size.
    """
    a, right = operation.operands
    if not (array_of(a).is_bounded and array_of(right).is_bounded):
        return None
    is_left = ir.BoolAttr(operation.attributes["left_side"]).value
    dimension = array_of(right).rank - (2 if is_left else 1)
    size = _matrix_size(b, a)
    full = b.at_bounds(right)
    if size is not None:
        full = b.masked(b.within(array_of(full), {dimension: (None, size)}), full)
    return _on_matrices(b, operation, [_extended_by_identity(b, a), full])


def _on_matrices(b: OpBuilder, operation: ir.Operation, values: list[Value]) -> list[Value] | None:
    """Apply the operation to these operands, in f32 for 8-bit floats; None if nothing changes."""
    shape = array_of(operation.results[0])
    is_narrow = shape.element_type in F32_FOR_NARROW_FLOATS
    if not is_narrow and values == list(operation.operands):
        return None
    if is_narrow:
        values = [b.converted(value, pt.f32) for value in values]
    result = b(operation.name, values[-1].type, values, attributes_of(operation))
    result = b.sized(result, b.sizes(operation.operands[-1]))
    return [b.converted(result, shape.element_type)]


def _matrix_size(b: OpBuilder, matrix: Value) -> Value | None:
    """The size of square matrices at run time; None if the size is fixed."""
    rows, columns = b.sizes(matrix)[-2:]
    return rows or columns


def _extended_by_identity(b: OpBuilder, matrix: Value) -> Value:
    """Square matrices at their bound, extended by the identity beyond their size."""
    full = b.at_bounds(matrix)
    size = _matrix_size(b, matrix)
    if size is None:
        return full
    shape = array_of(full)
    indices = shape.with_element_type(pt.s32)
    row, column = shape.rank - 2, shape.rank - 1
    is_diagonal = b.compared("EQ", b.counted(indices, row), b.counted(indices, column))
    identity = b.masked(is_diagonal, b.filled(shape, 1))
    is_inside = b.within(shape, {row: (None, size), column: (None, size)})
    return b.selected(is_inside, full, identity)


@rewrite("stablehlo.fft", platforms=("cpu", "gpu"))
def fft(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Transform an array with bounded batch dimensions at its bounds.

    XLA does not support bounded sizes in fft.

    Shown by: fft_of_a_bounded_size.
    """
    operand, result = operation.operands[0], array_of(operation.results[0])
    if result.is_static or not result.is_bounded or not has_full_lengths(operation):
        return None
    full = b("fft", result.at_bounds(), [b.at_bounds(operand)], attributes_of(operation))
    return [b.sized(full, b.sizes(operand))]


def has_full_lengths(operation: ir.Operation) -> bool:
    """Whether fft_length equals the sizes of the transformed dimensions, which are fixed."""
    lengths = integers_of(operation, "fft_length")
    shapes = [array_of(operation.operands[0]), array_of(operation.results[0])]
    # In a transform between real and complex numbers, the real array has these lengths.
    real = next((shape for shape in shapes if not shape.element_type.is_complex), shapes[0])
    count = len(lengths)
    return list(real.dimensions[-count:]) == lengths and not any(real.dynamic_dimensions[-count:])


refuse(
    "stablehlo.fft",
    "cpu",
    "gpu",
    reason="fft_length must equal the sizes of the transformed dimensions, which must be fixed; "
    "otherwise XLA accesses memory outside of the operand",
    fix="pass the sizes of the transformed dimensions as fft_length; to transform a part or an "
    "extension of the operand, use xb.slice or xb.pad first",
    unless=has_full_lengths,
)


def _has_single_precision(operation: ir.Operation) -> bool:
    values = (*operation.operands, *operation.results)
    return all(array_of(value).element_type not in (pt.f64, pt.c128) for value in values)


refuse(
    "stablehlo.fft",
    "tpu",
    reason="XLA supports Fourier transforms of f32 and c64 only",
    fix="convert to c64 or f32 with xb.convert_element_type",
    unless=_has_single_precision,
)
