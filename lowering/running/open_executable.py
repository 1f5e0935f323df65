"""OpenExecutable: a program with unbounded sizes, compiled for the sizes of each call.

XLA compiles programs of fixed sizes only. A call determines the unbounded sizes of the program; the
module is refined to these sizes and compiled, and the executable is kept for calls of equal sizes.
Buckets are the sizes to which arguments are padded, so that fewer sizes are compiled.
"""

from __future__ import annotations

import itertools
import os
import threading
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, NoReturn, Self, cast

import jax
import numpy as np

from builder.errors import OperandError, XlaError, brief, error_of
from builder.graph.calls import explained
from builder.graph.xla_op import XlaOp
from builder.inspection.describing import signature_table
from builder.inspection.parts import Column, Heading, Part, TextTable
from builder.support.display import Displayed
from builder.support.frames import remove_internal_frames
from builder.support.names import ExplainsAttributes
from builder.types import primitive_type as pt
from builder.types.expected_arrays import conversion_fix
from builder.types.shape import (
    UNBOUNDED,
    ArrayShape,
    ProgramShape,
    Shape,
    ShapeLike,
    TokenShape,
    TupleShape,
    fold,
    has_unbounded_sizes,
    intern_array,
    leaves,
)
from lowering.errors import ArgumentError, LoweringError, ModuleFileError
from lowering.importer.importing import line_of, unequal_sizes
from lowering.importer.refinement import checked_shapes, reason_of, with_argument_shapes
from lowering.mlir.types import leaf_paths
from lowering.pjrt.host_arrays import describe
from lowering.running.arguments import Parameters, first_elements, pad, target_of
from lowering.running.executable import Executable, LoadedExecutable
from lowering.running.executable_file import save_open_executable
from lowering.running.jit_arguments import as_numpy
from lowering.stablehlo.call_tree import flatten
from lowering.stablehlo.module import StablehloModule

BucketList = Literal["powers of two"] | Sequence[int]
"""The sizes for one dimension: the powers of two, or a list."""

Buckets = BucketList | Mapping[str, BucketList | Mapping[int, BucketList]] | None
"""The sizes to which unbounded sizes are padded; see `lowering.compile`."""

_POWERS: Final = "powers of two"


def checked_buckets(buckets: Any, program: ProgramShape) -> Buckets:
    """Return the argument `buckets` of `lowering.compile`, with sorted lists.

    Args:
        buckets: the argument, or what was read from a file: there the numbers of dimensions are
            text.
        program: the signature of the program.

    Raises:
        OperandError: it has another form, or names no parameter or dimension of unbounded size.
    """
    if buckets is None:
        return None
    if not isinstance(buckets, Mapping):
        return _checked_list(buckets)
    parameters = dict(zip(program.parameter_names, program.parameters, strict=True))
    found: dict[str, Any] = {}
    for name, each in buckets.items():
        shapes = leaves(parameters[name]) if name in parameters else ()
        arrays = [shape for shape in shapes if isinstance(shape, ArrayShape)]
        places = {d for a in arrays for d, size in enumerate(a.dimensions) if size == UNBOUNDED}
        if not places:
            rule = "buckets must be for parameters with unbounded sizes"
            listed = ", ".join(f"{n}: {shape}" for n, shape in parameters.items())
            got = brief(name)
            raise error_of(OperandError, "compile", rule, listed, argument="buckets", got=got)
        if not isinstance(each, Mapping):
            found[name] = _checked_list(each)
            continue
        by_dimension = {_number(key): value for key, value in each.items()}
        if not by_dimension.keys() <= places:
            wrong = next(key for key in by_dimension if key not in places)
            rule = f"buckets for {name} must be for its unbounded dimensions, "
            rule += ", ".join(map(str, sorted(places)))
            raise error_of(OperandError, "compile", rule, argument="buckets", got=brief(wrong))
        found[name] = {key: _checked_list(value) for key, value in by_dimension.items()}
    return found


def _number(key: Any) -> Any:
    return int(key) if isinstance(key, str) and key.isdecimal() else key


def _checked_list(sizes: Any) -> BucketList:
    if isinstance(sizes, str) and sizes == _POWERS:
        return cast("BucketList", sizes)
    is_list = isinstance(sizes, Sequence) and not isinstance(sizes, str) and len(sizes)
    if not is_list or any(type(n) is not int or n < 1 for n in sizes):
        rule = "buckets must be 'powers of two' or a list of positive sizes, for all dimensions or "
        rule += "by parameter, as in {'x': [8, 16]}, or by dimension, as in {'x': {0: [8, 16]}}"
        raise error_of(OperandError, "compile", rule, argument="buckets", got=brief(sizes))
    return sorted(set(sizes))


def buckets_of(buckets: Buckets, name: str, dimension: int) -> BucketList | None:
    """Return the buckets of a dimension of a parameter; None if it is not padded."""
    if not isinstance(buckets, Mapping):
        return buckets
    of_parameter = buckets.get(name)
    if not isinstance(of_parameter, Mapping):
        return of_parameter
    return of_parameter.get(dimension)


def bucket_of(size: int, buckets: BucketList) -> int | None:
    """Return the smallest bucket for a size; None if the size is larger than all."""
    if isinstance(buckets, str):
        return 1 << max(size - 1, 0).bit_length()
    number = bisect_left(buckets, size)
    return buckets[number] if number < len(buckets) else None


def trials(flat: Sequence[Any]) -> list[list[Any]]:
    """Return other arguments of the same shapes, to show whether results depend on padding.

    Those of a call may hide it: padding with zeros changes neither a sum nor the maximum of
    positive numbers. The trials are random numbers, and positive and negative ones. Integers may be
    indices, so one trial has those of the call.

    Args:
        flat: the arguments of a call, with None for tokens.
    """
    random = np.random.default_rng(0)
    return [[_trial(value, sign, random) for value in flat] for sign in (0, 1, -1)]


def _trial(value: Any, sign: int, random: np.random.Generator) -> Any:
    if value is None:
        return None
    array = np.asarray(value)
    if array.dtype == bool:
        return random.random(array.shape) < 0.5 if sign else value
    element_type = pt.from_dtype(array.dtype)
    if element_type.is_integral:
        if not sign:
            return value
        numbers = 1 + np.arange(array.size).reshape(array.shape) % min(7, element_type.max)
        return (numbers * (sign if element_type.min < 0 else 1)).astype(array.dtype)
    numbers = random.normal(size=array.shape)
    if sign:
        numbers = sign * (np.abs(numbers) + 0.5)
    return numbers.astype(array.dtype)


def are_close(one: Any, other: Any) -> bool:
    """Return whether results are equal up to rounding errors."""
    one, other = np.asarray(one), np.asarray(other)
    if one.dtype.kind in "biu":
        return bool(np.array_equal(one, other))
    if one.dtype.kind != "c":
        one, other = one.astype(np.float64), other.astype(np.float64)
    return bool(np.allclose(one, other, rtol=1e-2, atol=1e-4, equal_nan=True))


def first_difference(results: Any, expected: Any) -> int | None:
    """Return the number of the first array that differs; None if all are close."""
    pairs = zip(jax.tree.leaves(results), jax.tree.leaves(expected), strict=True)
    return next((place for place, pair in enumerate(pairs) if not are_close(*pair)), None)


MOST_KEPT: Final = 128
"""The maximum number of executables of one program; the least recently used one is removed."""

Sizes = tuple[tuple[int, ...], ...]
"""The sizes of the arrays that are passed for the parameters with unbounded sizes."""

Make = Callable[[StablehloModule], LoadedExecutable]
"""Compiles a module of fixed sizes."""


class OpenLeaf(NamedTuple):
    """An array with unbounded sizes among the parameters.

    Attributes:
        shape: its declared shape.
        number, name: the number and name of the parameter.
        path: the position within the parameter's tuple: "[0][1]".
        position: the number of the array among those of all parameters, tuples flattened.
    """

    shape: ArrayShape
    number: int
    name: str
    path: str
    position: int


_CALLS: Final = itertools.count()
"""Numbers calls, in order."""


class _Kept:
    """An executable, and the number of the call that used it last.

    Attributes:
        executable: the executable.
        call: its `__call__`, which is a function of jaxlib for most programs.
        used: the number of the call.
    """

    __slots__ = ("call", "executable", "used")

    def __init__(self, executable: LoadedExecutable) -> None:
        self.executable: Final = executable
        self.call: Final[Callable[..., Any]] = executable.__call__
        self.used = next(_CALLS)


class OpenExecutable(Displayed, ExplainsAttributes):
    """A program with unbounded sizes, compiled for the sizes of each call.

    `lowering.compile` creates it for a program with parameters such as f32[?,3], unless it gets
    `argument_shapes`. It is called like the executable of a program of fixed sizes, with arrays of
    any sizes that fit: an `Executable`, or for several devices a `ReplicatedExecutable` or a
    `PartitionedExecutable`. The first call with new sizes compiles the program for them; later
    calls find the executable. The 128 executables that were used last are kept.

    Attributes:
        name: the computation's name.
        program_shape: the parameters and the result, with unbounded sizes.
        devices: the jax.Devices that the program runs on.

    Example:
        >>> import builder as xb, lowering, numpy as np
        >>> @xb.computation(xb.f32["?", 3])
        ... def total(x):
        ...     return xb.reduce(x, 0.0, xb.add, [1])
        >>> run = lowering.compile(total, "cpu")
        >>> run(np.ones((2, 3), np.float32)), run(np.ones((1, 3), np.float32))
        (Array([3., 3.], dtype=float32), Array([3.], dtype=float32))
        >>> run.compiled_for()
        [(x: f32[2,3]) -> f32[2], (x: f32[1,3]) -> f32[1]]
    """

    __slots__ = (
        *("_arguments", "_buckets", "_call", "_compiling", "_checked", "_kept", "_make"),
        *("_module", "_on_compile", "_open", "_parameters", "_places", "_results"),
        *("devices", "name", "program_shape"),
    )

    def __init__(
        self,
        module: StablehloModule,
        make: Make,
        devices: Sequence[jax.Device],
        buckets: Buckets,
        arguments: Mapping[str, Any],
        *,
        is_on_one_device: bool,
    ) -> None:
        self.name: Final = module.name
        self.devices: Final = tuple(devices)
        self.program_shape: Final = module.program_shape
        self._module: Final = module
        self._make: Final = make
        self._buckets: Final = buckets
        self._parameters: Final = Parameters(module.name, module.program_shape, module.tree)
        self._open: Final = _open_leaves(module.program_shape)
        self._places: Final = [self._place(leaf) for leaf in self._open]
        self._kept: Final[dict[Sizes, _Kept]] = {}
        self._results: Final[dict[Sizes, Shape]] = {}
        self._arguments: Final = {**arguments, "buckets": buckets}
        self._checked: Final[set[frozenset[tuple[int, int]]]] = set()
        self._on_compile: Callable[[], None] = _ignored
        self._compiling: Final = threading.Lock()
        if not is_on_one_device:
            self._call: Callable[..., Any] = self._call_on_devices
        elif buckets is not None:
            self._call = self._call_padded
        else:
            self._call = self._call_exact

    def __call__(self, /, *args: Any, **by_name: Any) -> Any:
        """Execute the computation for the sizes of the arguments.

        Raises:
            ArgumentError: the arguments do not match the parameters, or their sizes do not fit one
                another.
            CompileError, ExecutionError: as for `lowering.compile` and the executable.
        """
        try:
            return self._call(*args, **by_name)
        except XlaError as error:
            remove_internal_frames(error)
            raise

    @property
    def device(self) -> jax.Device:
        """The first of the devices."""
        return self.devices[0]

    @explained
    def compile(self, /, *args: Any, **by_name: Any) -> LoadedExecutable:
        """Return the executable for the sizes of some arguments; compile it if there is none.

        Args:
            args, by_name: the arguments of a call; a shape, such as ``xb.f32[8, 3]``, or a
                jax.ShapeDtypeStruct may replace any array.

        Raises:
            ArgumentError, CompileError: as for a call.

        Example:
            >>> import builder as xb, lowering
            >>> b = xb.XlaBuilder("double")
            >>> x = b.parameter(xb.f32["?"], "x")
            >>> run = lowering.compile(b.build(x + x), "cpu")
            >>> run.compile(xb.f32[8])
            <Executable 'double' (x: f32[8]) -> f32[8] on cpu:0>
        """
        values, _ = self._parameters.bind(args, by_name)
        return self._executable(self._bucketed(self._sizes(self._parameters.flatten(values))))

    @explained
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the program, and its executables that are kept, to a file, atomically.

        `lowering.load_executable` reads the file, and compiles for new sizes only. See
        `Executable.save`.

        Args:
            path: the file.

        Raises:
            ModuleFileError: the program calls Python functions, or runs on devices of several
                processes; or the file can't be written.

        Example:
            >>> import builder as xb, lowering, pathlib, tempfile
            >>> b = xb.XlaBuilder("double")
            >>> run = lowering.compile(b.build(b.parameter(xb.f32["?"], "x") * 2.0), "cpu")
            >>> four = run.compile(xb.f32[4])
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = pathlib.Path(folder, "double.executable")
            ...     run.save(path)
            ...     lowering.load_executable(path)
            <OpenExecutable 'double' (x: f32[?]) -> f32[?], compiled for 1 size>
        """
        kept = [one.executable for one in self._kept.copy().values()]
        if self._module.functions:
            raise ModuleFileError(
                f"{self.name} calls Python functions, which can't be saved to a file",
                context=(str(path),),
                fix="call a registered function instead: xb.custom_call",
                path=str(path),
                op="save",
            )
        save_open_executable(path, self.name, self._module.bytecode, self._arguments, kept)

    def _keep(self, executables: Sequence[LoadedExecutable]) -> None:
        """Keep executables that were compiled before, for `load_executable`."""
        for executable in executables:
            shapes = executable.program_shape.parameters
            arrays = [leaf for shape in shapes for leaf in leaves(shape)]
            self._kept[self._sizes(arrays)] = _Kept(executable)

    def _for_arrays(self, values: Sequence[Any]) -> LoadedExecutable:
        """Return the executable for an array for each parameter, for `lowering.jit`."""
        return self._executable(self._sizes([_of_first_device(value) for value in values]))

    def compiled_for(self) -> list[ProgramShape]:
        """Return the parameters and the result of each executable, those used last at the end."""
        kept = sorted(self._kept.copy().values(), key=lambda one: one.used)  # threads add some
        return [one.executable.program_shape for one in kept]

    # Calls

    def _call_exact(self, /, *args: Any, **by_name: Any) -> Any:
        """Call the executable for exactly the sizes of the arguments."""
        tree = self._parameters.tree
        try:
            if tree is None:
                passed: Sequence[Any] = () if by_name else args
            else:
                passed, structure = flatten((args, by_name))
                passed = passed if structure == tree.arguments else ()
            kept = self._kept.get(tuple([passed[place].shape for place in self._places]))
        except (AttributeError, IndexError, TypeError, ValueError, RecursionError, SystemError):
            kept = None  # not arrays, or arguments that can't be flattened
        if kept is not None:
            kept.used = next(_CALLS)
            return kept.call(*args, **by_name) if by_name else kept.call(*args)
        values, _ = self._parameters.bind(args, by_name)
        return self._executable(self._sizes(self._parameters.flatten(values)))(*args, **by_name)

    def _call_on_devices(self, /, *args: Any, **by_name: Any) -> Any:
        values, _ = self._parameters.bind(args, by_name, lists=True)
        first = self._parameters.flatten(tuple(map(_of_first_device, values)))
        return self._executable(self._sizes(first))(*args, **by_name)

    def _call_padded(self, /, *args: Any, **by_name: Any) -> Any:
        """Call the executable for the next larger buckets, and slice its results."""
        values, nest = self._parameters.bind(args, by_name)
        flat = self._parameters.flatten(values)
        sizes = self._sizes(flat)
        padded = self._bucketed(sizes)
        executable = self._executable(padded)
        assert isinstance(executable, Executable)  # on one device
        if padded == sizes:
            return executable(*args, **by_name)
        places = frozenset(
            [
                (leaf.position, place)
                for leaf, passed, bounds in zip(self._open, sizes, padded, strict=True)
                for place, (size, bound) in enumerate(zip(passed, bounds, strict=True))
                if size != bound
            ]
        )
        if places not in self._checked:
            self._check_padding(executable, flat, sizes, padded)
            self._checked.add(places)
        return nest(self._run_padded(executable, flat, sizes, padded))

    def _run_padded(
        self, executable: Executable, flat: Sequence[Any], sizes: Sizes, padded: Sizes
    ) -> Any:
        """Call an executable for padded arguments; return its results without the padding."""
        arrays = list(flat)
        for leaf, bounds in zip(self._open, padded, strict=True):
            shape = intern_array(leaf.shape.element_type, bounds)
            arrays[leaf.position] = pad(flat[leaf.position], shape)
        return self._sliced(
            _run_flat(executable, arrays, len(self.program_shape.parameters)), sizes
        )

    def _bucketed(self, sizes: Sizes) -> Sizes:
        """Return the sizes to which the arguments are padded; `sizes` without buckets."""
        return tuple(
            [
                tuple([self._padded(size, leaf, place) for place, size in enumerate(passed)])
                for passed, leaf in zip(sizes, self._open, strict=True)
            ]
        )

    def _padded(self, size: int, leaf: OpenLeaf, dimension: int) -> int:
        """Return the size to which a dimension of an argument is padded."""
        if leaf.shape.dimensions[dimension] != UNBOUNDED:
            return size
        buckets = buckets_of(self._buckets, leaf.name, dimension)
        if buckets is None:
            return size
        bucket = bucket_of(size, buckets)
        if bucket is not None:
            return bucket
        raise self._parameters.refusal(
            leaf,
            f"size {size}",
            f"pass smaller arrays, or add a bucket of at least {size} to lowering.compile",
            expected=f"of sizes up to the largest bucket, {buckets[-1]}",
        )

    def _sliced(self, result: Any, sizes: Sizes) -> Any:
        """Return the results of a padded call without the padding."""
        shapes = [
            leaf for leaf in leaves(self._result_shape(sizes)) if isinstance(leaf, ArrayShape)
        ]
        arrays, structure = flatten(result)
        sliced = [
            array
            if array.shape == shape.dimensions
            else first_elements(array, shape.dimensions, target_of(shape, array.sharding))
            for array, shape in zip(arrays, shapes, strict=True)
        ]
        return structure.unflatten(sliced)

    def _result_shape(self, sizes: Sizes) -> Shape:
        """Return the shape of the result for these sizes."""
        shape = self._results.get(sizes)
        if shape is None:
            shape = self._refined(sizes).program_shape.result
            if len(self._results) >= _MOST_RESULTS:
                self._results.clear()
            self._results[sizes] = shape
        return shape

    def _check_padding(
        self, executable: Executable, flat: Sequence[Any], sizes: Sizes, padded: Sizes
    ) -> None:
        """Raise ArgumentError if padding changes results, for this call or other arguments."""
        exact = self._make(self._refined(sizes))
        assert isinstance(exact, Executable)
        for arguments in trials(flat):
            expected = _run_flat(exact, arguments, len(self.program_shape.parameters))
            results = self._run_padded(executable, arguments, sizes, padded)
            place = first_difference(results, expected)
            if place is not None:
                exact_text, padded_text = (
                    ", ".join(self._open_shapes(each)) for each in (sizes, padded)
                )
                raise self._parameters.error(
                    f"results must not depend on elements that buckets add, but result {place} for "
                    f"{exact_text} differs if the arguments are padded to {padded_text}",
                    "compile the program without buckets, mask the added elements, or pass buckets "
                    "for other dimensions only: buckets={'x': {0: [8, 16]}}",
                )

    def _open_shapes(self, sizes: Sizes) -> list[str]:
        """Return the arrays with unbounded sizes, with these sizes, as text."""
        return [
            f"{leaf.name}{leaf.path}: {intern_array(leaf.shape.element_type, each)}"
            for leaf, each in zip(self._open, sizes, strict=True)
        ]

    # Executables

    def _place(self, leaf: OpenLeaf) -> int:
        """Return the place of an array among the arguments of a call, flattened if nested."""
        tree = self._parameters.tree
        if tree is not None:
            return tree.used[leaf.position - tree.argument_tokens]
        # A tuple has no shape.
        return leaf.number

    def _sizes(self, flat: Sequence[Any]) -> Sizes:
        """Return the sizes of the arrays that are passed for leaves with unbounded sizes.

        Raises:
            ArgumentError: a value does not fit its parameter.
        """
        found = []
        for leaf in self._open:
            value = flat[leaf.position]
            dimensions = _dimensions(value)
            if dimensions is None or not _fits(dimensions, leaf.shape):
                fix = ""
                if dimensions == () and not isinstance(value, ArrayShape):
                    dtype_of = pt.dtype_text(leaf.shape.element_type.dtype)
                    fix = f"pass numpy.array(value, {dtype_of}, ndmin={leaf.shape.rank})"
                raise self._parameters.refusal(leaf, describe(value), fix)
            dtype = getattr(value, "dtype", None)
            if isinstance(dtype, np.dtype) and dtype != leaf.shape.element_type.dtype:
                exact = intern_array(leaf.shape.element_type, dimensions)
                fix = conversion_fix(value, exact, value)
                raise self._parameters.refusal(leaf, describe(value), fix)
            found.append(dimensions)
        return tuple(found)

    def _executable(self, sizes: Sizes) -> LoadedExecutable:
        """Return the executable for these sizes; compile the program if there is none."""
        kept = self._kept.get(sizes)
        if kept is None:
            with self._compiling:  # no two threads compile for the same sizes
                kept = self._kept.get(sizes)
                if kept is None:
                    kept = _Kept(self._make(self._refined(sizes)))
                    self._on_compile()
                    if len(self._kept) >= MOST_KEPT:
                        del self._kept[min(self._kept, key=lambda each: self._kept[each].used)]
                    self._kept[sizes] = kept
        kept.used = next(_CALLS)
        return kept.executable

    def _shapes(self, sizes: Sizes) -> list[Shape]:
        """Return the shapes of the parameters for these sizes."""
        remaining = iter(sizes)

        def sized(leaf: ArrayShape | TokenShape) -> Shape:
            if not has_unbounded_sizes(leaf) or not isinstance(leaf, ArrayShape):
                return leaf
            dynamic = [
                is_dynamic and size != UNBOUNDED
                for size, is_dynamic in zip(leaf.dimensions, leaf.dynamic_dimensions, strict=True)
            ]
            passed = next(remaining)
            bounds = [
                size if is_dynamic else new
                for size, is_dynamic, new in zip(leaf.dimensions, dynamic, passed, strict=True)
            ]
            shape = intern_array(leaf.element_type, tuple(bounds), tuple(dynamic))
            return shape.with_layout(leaf.layout)

        return [fold(shape, sized, TupleShape) for shape in self.program_shape.parameters]

    def _refined(self, sizes: Sizes) -> StablehloModule:
        """Return the module for these sizes.

        Raises:
            ArgumentError: the sizes contradict one another, or sizes in the program.
        """
        shapes = self._shapes(sizes)
        try:
            return with_argument_shapes(self._module, shapes, self.name)
        except LoweringError as error:
            reason = reason_of(error.detail)
            where = line_of(error.detail)
            unequal = unequal_sizes(self._module, shapes, where)
            if unequal is not None:
                rule, got = unequal
                raise self._parameters.error(rule, got=got) from None
            raise ArgumentError(
                f"the sizes of the arguments do not fit the program{where}: {reason}",
                got=", ".join(map(str, shapes)),
                computation=self.name,
                shapes=dict(zip(self.program_shape.parameter_names, shapes, strict=True)),
                detail=error.detail,
            ) from None

    # Display

    def __repr__(self) -> str:
        count = len(self._kept)
        kept = f"compiled for {count} size{'s' * (count != 1)}"
        return f"<OpenExecutable {self.name!r} {self.program_shape}, {kept}>"

    def _parts(self) -> list[Part]:
        shapes = self.compiled_for()
        heading = Heading("OpenExecutable", self.name, f"compiled for {len(shapes)} sizes")
        rows = [[str(shape)] for shape in shapes]
        signature = signature_table(self.program_shape)
        table = TextTable("", (Column("compiled for"),), rows)
        return [heading, signature, table] if rows else [heading, signature]

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise OperandError(
            f"executable {self.name} can't be pickled",
            fix="pickle the module: lowering.lower(computation).bytecode",
            op="pickle",
        )


_MOST_RESULTS: Final = 1024


def _ignored() -> None:
    """Called after each compilation, unless `lowering.jit` counts them."""


def _open_leaves(shape: ProgramShape) -> tuple[OpenLeaf, ...]:
    """Return the arrays with unbounded sizes among the parameters."""
    found = []
    position = 0
    for number, (parameter, name) in enumerate(
        zip(shape.parameters, shape.parameter_names, strict=True)
    ):
        for leaf, path in zip(leaves(parameter), leaf_paths(parameter), strict=True):
            if isinstance(leaf, ArrayShape) and has_unbounded_sizes(leaf):
                found.append(OpenLeaf(leaf, number, name, path, position))
            position += 1
    return tuple(found)


def _dimensions(value: Any) -> tuple[int, ...] | None:
    """Return the sizes of an array, a shape or nested lists; None for other values."""
    if isinstance(value, ArrayShape):
        return value.dimensions
    sizes: Any = getattr(value, "shape", None)
    if type(sizes) is tuple:
        return tuple(sizes)
    if isinstance(value, XlaOp):
        return None
    try:
        return tuple(np.shape(as_numpy(value)))
    except (TypeError, ValueError, OverflowError):
        return None


def _fits(dimensions: tuple[int, ...], shape: ArrayShape) -> bool:
    """Return whether an array of these sizes may be passed for a parameter."""
    return len(dimensions) == shape.rank and all(
        declared == UNBOUNDED or size == declared or (is_dynamic and size <= declared)
        for size, declared, is_dynamic in zip(
            dimensions, shape.dimensions, shape.dynamic_dimensions, strict=True
        )
    )


def _run_flat(executable: Executable, flat: Sequence[Any], parameters: int) -> Any:
    """Execute a program for an array for each array of its parameters."""
    steps = executable._steps
    return steps.run(steps.arguments.put_all(list(flat), parameters))


def _of_first_device(value: Any) -> Any:
    """Return the value for the first device of an argument on several devices."""
    return value[0] if isinstance(value, list) and value else value


def open_executable(
    module: StablehloModule,
    make: Make,
    devices: Sequence[jax.Device],
    sizes: Sequence[Sequence[ShapeLike]],
    buckets: Buckets,
    arguments: Mapping[str, Any],
    *,
    is_on_one_device: bool,
) -> OpenExecutable:
    """Return the executable of a module with unbounded sizes.

    Args:
        module: the module.
        make: compiles a module of fixed sizes.
        devices: the devices that it is compiled for.
        sizes, buckets: see `lowering.compile`.
        arguments: the other arguments of `lowering.compile`, for files.
        is_on_one_device: whether a call takes one value for each parameter.
    """
    if not isinstance(sizes, Sequence) or isinstance(sizes, (str, bytes)):
        rule = "sizes must be a list of argument_shapes"
        raise error_of(OperandError, "compile", rule, argument="sizes", got=brief(sizes))
    if buckets is not None and not is_on_one_device:
        rule, fix = "buckets are for one device", "pad the arguments, or leave buckets out"
        raise error_of(OperandError, "compile", rule, fix, argument="buckets")
    shapes = [checked_shapes(module, each, "compile") for each in sizes]
    executable = OpenExecutable(
        module,
        make,
        devices,
        checked_buckets(buckets, module.program_shape),
        arguments,
        is_on_one_device=is_on_one_device,
    )
    for each in shapes:
        arrays = [leaf for shape in each for leaf in leaves(shape)]
        executable._executable(executable._bucketed(executable._sizes(arrays)))
    return executable
