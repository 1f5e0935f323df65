"""Executable: a module compiled for a device, to be called with arrays.

A call checks everything before it executes: the runtime itself takes bytes as they come, and
would read an array of another shape, type or layout without a word.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final

import jax
import numpy as np

from builder import primitive_type as pt
from builder.computation import XlaComputation
from builder.constant import scalar_array
from builder.errors import ConstantError, OperandError
from builder.shape import ArrayShape, ProgramShape, Shape, TokenShape, TupleShape, leaves
from builder.xla_op import XlaOp
from lowering import jaxlib_api
from lowering.compilable import check_compilable
from lowering.errors import ArgumentError, CompileError
from lowering.flattening import leaf_paths
from lowering.legalize import legalize
from lowering.module import StablehloModule
from lowering.pjrt import DeviceLike, Target, device as find_device, host_array, sharding_of

__all__ = ["Executable", "compile"]

_JaxArray: Final = jaxlib_api.array_type
_layout_of: Final = jaxlib_api.layout_of
_TOKEN_SHAPE: Final = pt.pred[0]
"""What the runtime passes in place of a token: an array without elements."""


class _Leaf:
    """One array argument: where it stands, and what may be given there.

    Attributes:
        target: where its arrays go.
        aval: what a jax.Array given there has to be.
        layout: the memory layout that it has to have; None where there is but one.
        number, name: of the parameter that it is (a part of).
        path: its place within the parameter's tuple: "[0][1]".
    """

    __slots__ = ("aval", "is_token", "layout", "name", "number", "path", "target")

    def __init__(self, target: Target, number: int, name: str, path: str, is_token: bool) -> None:
        self.target: Final = target
        self.aval: Final = target.aval
        self.layout: Any = target.default if len(target.dimensions) > 1 else None
        self.number: Final = number
        self.name: Final = name
        self.path: Final = path
        self.is_token: Final = is_token


class Executable:
    """A computation compiled for one device. `lowering.compile` makes them.

    Call it with one argument for each parameter, in order or by the parameters' names:

    - a NumPy array or scalar, or an object with ``__dlpack__``, which is copied to the device;
    - a jax.Array on the device, which is used as it is;
    - a Python number for a scalar parameter, if the parameter's type holds it exactly as
      `builder.constant` would have it;
    - a tuple or list, nested as the parameter is, for a tuple parameter;
    - None for a token.

    The result is a jax.Array, or a Python tuple nested as the computation's root is. Elements are
    exactly of the types that the computation says, 64-bit ones included, whatever jax's x64 flag
    says. Tokens in it are None.

    Attributes:
        name: the computation's name.
        program_shape: parameters and result.
        device: the jax.Device that it runs on.

    Example:
        >>> import builder as xb, lowering, numpy as np
        >>> @xb.computation(xb.f64[2], xb.f64[()])
        ... def scale(x, factor):
        ...     return xb.mul(x, factor)
        >>> run = lowering.compile(scale)
        >>> run(np.array([1.0, 2.0]), factor=0.5)
        Array([0.5, 1. ], dtype=float64)
    """

    __slots__ = (
        "__weakref__",
        "_flat",
        "_leaves",
        "_loaded",
        "_pack",
        "_run",
        "_sharding",
        "device",
        "name",
        "program_shape",
    )

    def __init__(
        self, loaded: Any, name: str, program_shape: ProgramShape, device: jax.Device
    ) -> None:
        self.name = name
        self.program_shape = program_shape
        self.device = device
        self._loaded = loaded
        self._sharding = sharding_of(device)
        self._leaves = self._argument_leaves()
        self._flat = not any(isinstance(p, TupleShape) for p in program_shape.parameters)
        handlers = [
            jaxlib_api.result_handler(self._target(leaf).aval, self._sharding)
            for leaf in leaves(program_shape.result)
        ]
        self._run = jaxlib_api.runner(loaded, handlers)
        self._pack = _packer(program_shape.result)

    def _target(self, leaf: ArrayShape | TokenShape) -> Target:
        return Target(leaf if isinstance(leaf, ArrayShape) else _TOKEN_SHAPE, self._sharding)

    def _argument_leaves(self) -> tuple[_Leaf, ...]:
        found: list[_Leaf] = []
        shape = self.program_shape
        for number, (parameter, name) in enumerate(
            zip(shape.parameters, shape.parameter_names, strict=True)
        ):
            for leaf, path in zip(leaves(parameter), leaf_paths(parameter), strict=True):
                token = isinstance(leaf, TokenShape)
                found.append(_Leaf(self._target(leaf), number, name, path, token))
        for position, one in enumerate(found):
            if one.target.shape.layout is not None and one.layout is not None:
                one.layout = jaxlib_api.parameter_layouts(self._loaded)[position]
        return tuple(found)

    def __call__(self, /, *args: Any, **by_name: Any) -> Any:
        """Executes the computation; see the class for what arguments may be.

        Raises:
            ArgumentError: the arguments are not those that the computation takes.
        """
        if by_name:
            args = self._in_order(args, by_name)
        expected = self._leaves
        flat: Any = args if self._flat else self._flattened(args)
        if len(flat) != len(expected):
            raise self._wrong_count(len(args))
        sharding = self._sharding
        arrays = []
        for value, leaf in zip(flat, expected):  # noqa: B905 (the lengths were compared)
            if (
                type(value) is _JaxArray
                and value.aval == leaf.aval
                # By identity first: comparing takes five times as long.
                and ((where := value.sharding) is sharding or where == sharding)
                and (
                    leaf.layout is None
                    or (not value.is_deleted() and _layout_of(value) == leaf.layout)
                )
            ):
                arrays.append(value)
            else:
                arrays.append(self._argument(value, leaf))
        try:
            results = self._run(arrays)
        except RuntimeError:
            # Looked for only now: an executable does not take deleted arrays.
            for value, leaf in zip(arrays, expected, strict=True):
                if value.is_deleted():
                    raise self._refused(leaf, _DELETED, _DELETED_FIX) from None
            raise
        return self._pack(results)

    def hlo_text(self) -> str:
        """HLO text of what XLA made of the computation."""
        return jaxlib_api.optimized_hlo_text(self._loaded)

    def __repr__(self) -> str:
        return f"<Executable {self.name!r} {self.program_shape} on {self.device}>"

    # What follows runs only for arguments that are no jax.Arrays in their places already.

    def _in_order(self, args: tuple[Any, ...], by_name: dict[str, Any]) -> tuple[Any, ...]:
        """Arguments by position and by name, all by position."""
        names = self.program_shape.parameter_names
        if len(args) > len(names):
            raise self._wrong_count(len(args))
        for name in by_name:
            if name not in names:
                known = f"the parameters are {', '.join(names)}" if names else "it has none"
                raise self._error(f"there is no parameter {name!r}\nfix: {known}", name=name)
            number = names.index(name)
            if number < len(args) or names.count(name) > 1:
                reason = (
                    f"is given by position ({number}) and by name\nfix: give it once"
                    if number < len(args)
                    else "is the name of several parameters\nfix: give all by position"
                )
                raise self._error(f"parameter {name!r} {reason}", number, name)
        missing = [n for n in names[len(args) :] if n not in by_name]
        if missing:
            number = names.index(missing[0])
            shape = self.program_shape.parameters[number]
            rest = "".join(f", {n}" for n in missing[1:])
            raise self._error(
                f"argument {number} ({missing[0]}) {shape} is missing\n"
                f"fix: give {missing[0]}{rest}, by position or by name",
                number,
                missing[0],
            )
        return args + tuple(by_name[n] for n in names[len(args) :])

    def _error(
        self, message: str, argument: int | None = None, name: str | None = None
    ) -> ArgumentError:
        shape = self.program_shape
        return ArgumentError(
            f"{self.name}: {message}",
            computation=self.name,
            argument=argument,
            name=name,
            shapes=dict(zip(shape.parameter_names, shape.parameters, strict=True)),
        )

    def _wrong_count(self, given: int) -> ArgumentError:
        shape = self.program_shape
        takes = [f"{n} {s}" for n, s in zip(shape.parameter_names, shape.parameters, strict=True)]
        count, listed = len(takes), ", ".join(takes)
        if given < count:
            fix = f"give {', '.join(takes[given:])} as well"
        else:
            fix = f"leave out the last {given - count}" if count else "call it without arguments"
        return self._error(
            f"takes {count} argument{'s' * (count != 1)}"
            f"{f' ({listed})' if takes else ''}, got {given}\nfix: {fix}"
        )

    def _flattened(self, args: tuple[Any, ...]) -> list[Any]:
        """The leaves of the arguments, tuples opened as the parameters are nested."""
        shape = self.program_shape
        if len(args) != len(shape.parameters):
            raise self._wrong_count(len(args))
        flat: list[Any] = []
        for number, (argument, parameter) in enumerate(zip(args, shape.parameters, strict=True)):
            stack: list[tuple[Any, Shape, str]] = [(argument, parameter, "")]
            while stack:
                value, wanted, path = stack.pop()
                if not isinstance(wanted, TupleShape):
                    flat.append(value)
                    continue
                if not isinstance(value, (tuple, list)) or len(value) != len(wanted.elements):
                    got = _describe(value)
                    if isinstance(value, (tuple, list)):
                        got = f"a {type(value).__name__} of {len(value)}"
                    name = shape.parameter_names[number]
                    raise self._error(
                        f"argument {number} ({name}){path} must be a tuple {wanted}, got {got}\n"
                        f"fix: give a tuple or list of {len(wanted.elements)}",
                        number,
                        name,
                    )
                pairs = list(zip(value, wanted.elements, strict=True))
                for index in range(len(pairs) - 1, -1, -1):
                    stack.append((*pairs[index], f"{path}[{index}]"))
        return flat

    def _argument(self, value: Any, leaf: _Leaf) -> jax.Array:
        """`value` as the jax.Array that the runtime is given for a leaf."""
        target = leaf.target
        if (
            type(value) is np.ndarray
            and value.dtype == target.dtype
            and value.shape == target.dimensions
            and target.shape.layout is None
            and not leaf.is_token
            and value.dtype.isnative
        ):
            return target.put(value)
        if leaf.is_token:
            if value is not None:
                raise self._refused(leaf, _describe(value), "give None for a token")
            return target.put(np.zeros((0,), np.bool_))
        if isinstance(value, jax.Array):
            return self._checked(value, leaf)
        if type(value) in (bool, int, float, complex):
            if target.dimensions:
                raise self._refused(leaf, f"the Python number {value!r}", self._numpy_fix(leaf))
            try:
                return target.put(scalar_array(value, target.shape.element_type, self.name))
            except ConstantError as error:
                reason = str(error).split(": ", 2)[-1]
                raise self._refused(leaf, f"the Python number {value!r}: {reason}") from None
        array = host_array(value)
        if array is None:
            fix = self._numpy_fix(leaf)
            if isinstance(value, np.ma.MaskedArray):
                fix = "there are no masks in XLA; fill it: array.filled(value)"
            elif isinstance(value, XlaOp):
                fix = "an op has no value before its computation is called; give an array"
            raise self._refused(leaf, _describe(value), fix)
        if array.dtype != target.dtype or array.shape != target.dimensions:
            raise self._refused(leaf, _describe(array), _conversion(array, target))
        if target.shape.layout is not None and leaf.layout != target.default:
            return self._put_in_layout(array, leaf)
        return target.put(array)

    def _put_in_layout(self, array: np.ndarray[Any, Any], leaf: _Leaf) -> jax.Array:
        """Puts an array on the device in the layout that the parameter asks for."""
        layout = leaf.target.shape.layout
        assert layout is not None
        order = tuple(reversed(layout.minor_to_major))
        array_there: jax.Array = jaxlib_api.put_in_layout(
            leaf.target.put(array), order, self._sharding
        )
        return array_there

    def _checked(self, value: Any, leaf: _Leaf) -> jax.Array:
        """A jax.Array that the quick test did not let through."""
        if isinstance(value, jax.core.Tracer):
            raise self._refused(
                leaf,
                "a tracer of jax",
                "call it outside of jax.jit, jax.grad and other transformations",
            )
        target = leaf.target
        if value.dtype != target.dtype or value.shape != target.dimensions:
            raise self._refused(leaf, _describe(value), _conversion(value, target))
        if value.is_deleted():
            raise self._refused(leaf, _DELETED, _DELETED_FIX)
        where = value.devices()
        if where != {self.device}:
            names = ", ".join(sorted(str(d) for d in where)[:4])
            raise self._refused(
                leaf,
                f"one on {names}",
                "jax.device_put(array, device), where device is the executable's",
                wanted=f"on {self.device}",
            )
        memory = value.sharding.memory_kind
        if memory != self._sharding.memory_kind:
            raise self._refused(
                leaf,
                f"one in memory of kind {memory!r}",
                "give numpy.asarray(array), or lowering.put(array, device)",
                wanted=f"in memory of kind {self._sharding.memory_kind!r}",
            )
        if leaf.layout is not None and _layout_of(value) != leaf.layout:
            raise self._refused(
                leaf,
                f"one in layout {jaxlib_api.layout_text(_layout_of(value))}",
                "give numpy.asarray(array), or lowering.put(array, device)",
                wanted=f"in layout {jaxlib_api.layout_text(leaf.layout)}",
            )
        checked: jax.Array = value
        return checked

    def _numpy_fix(self, leaf: _Leaf) -> str:
        return f"give a NumPy array: numpy.asarray(value, {_dtype_text(leaf.target)})"

    def _refused(self, leaf: _Leaf, got: str, fix: str = "", wanted: str = "") -> ArgumentError:
        shape: Any = "token[]" if leaf.is_token else leaf.target.shape
        return self._error(
            f"argument {leaf.number} ({leaf.name}){leaf.path} must be "
            f"{wanted or shape}, got {got}" + (f"\nfix: {fix}" if fix else ""),
            leaf.number,
            leaf.name,
        )


_DELETED: Final = "a jax.Array that has been deleted"
_DELETED_FIX: Final = "give one that was neither donated to another program nor deleted, or a copy"


def _dtype_text(target: Target) -> str:
    """The dtype as one would write it in a program."""
    name = target.dtype.name
    if name == "bool":
        return "bool"
    return f"numpy.{name}" if target.dtype.type.__module__ == "numpy" else f"ml_dtypes.{name}"


def _describe(value: Any) -> str:
    """A value given, shortly: the shape of an array, the type of anything else."""
    if isinstance(value, np.ma.MaskedArray):
        return "a masked array"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        sizes = ",".join(str(s) for s in value.shape)
        try:
            return f"{pt.from_dtype(value.dtype)}[{sizes}]"
        except ValueError:
            return f"an array {value.dtype}[{sizes}]"
    if value is None:
        return "None"
    if isinstance(value, XlaOp):
        return f"the XlaOp {value}"
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def _conversion(array: Any, target: Target) -> str:
    """What turns an array into one that is taken; nothing where that would be a guess."""
    wanted = f"numpy.asarray(values, {_dtype_text(target)}), of sizes {target.dimensions}"
    try:
        pt.from_dtype(array.dtype)
    except ValueError:
        return f"give an array of numbers: {wanted}"
    verb, change = _rearrangement(array.shape, target.dimensions)
    if change is None:
        return f"give an array of the parameter's sizes: {target.dimensions}"
    if array.dtype != target.dtype:
        verb = f"convert and {verb}" if verb else "convert"
        change += f".astype({_dtype_text(target)})"
    return f"{verb} it: array{change}"


def _rearrangement(given: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[str, str | None]:
    """How an array of some sizes gets others: verb and code; the code is None if not known."""
    if given == wanted:
        return "", ""
    if sorted(given) == sorted(wanted):
        # A reshape would be taken too, with the elements in other places than the caller means.
        remaining = list(enumerate(given))
        order: list[int] = []
        for size in wanted:
            found = next(pair for pair in remaining if pair[1] == size)
            remaining.remove(found)
            order.append(found[0])
        return "transpose", f".transpose({tuple(order)})"
    borders, others = _borders(given), _borders(wanted)
    if 0 not in given and max(borders) == max(others) and (borders <= others or others <= borders):
        # Neighbouring dimensions are put together, or one is split: no element moves.
        return "reshape", f".reshape({wanted})"
    return "", None


def _borders(sizes: tuple[int, ...]) -> set[int]:
    """The numbers of elements in the first dimensions: equal ones stay where they are."""
    return {math.prod(sizes[:end]) for end in range(len(sizes) + 1)}


def _packer(shape: Shape) -> Callable[[list[Any]], Any]:
    """A function from the flat results to what the caller gets."""
    if isinstance(shape, ArrayShape):
        return _first
    if isinstance(shape, TokenShape):
        return _nothing
    if all(isinstance(e, ArrayShape) for e in shape.elements):
        return tuple
    # In the order of their ends: each entry takes the last `count` values, or hides a token.
    steps: list[int] = []
    stack: list[Shape | int] = [shape]
    while stack:
        top = stack.pop()
        if isinstance(top, int):
            steps.append(top)
        elif isinstance(top, TupleShape):
            stack.append(len(top.elements))
            stack.extend(reversed(top.elements))
        else:
            steps.append(_TAKE if isinstance(top, ArrayShape) else _HIDE)

    def pack(results: list[Any]) -> Any:
        remaining = iter(results)
        done: list[Any] = []
        for step in steps:
            if step == _TAKE:
                done.append(next(remaining))
            elif step == _HIDE:
                next(remaining)
                done.append(None)
            else:
                start = len(done) - step
                done[start:] = [tuple(done[start:])]
        return done[0]

    return pack


_TAKE: Final = -1
_HIDE: Final = -2


def _first(results: list[Any]) -> Any:
    return results[0]


def _nothing(_results: list[Any]) -> None:
    return None


def compile(computation: StablehloModule | XlaComputation, device: DeviceLike = None) -> Executable:
    """Compiles a computation for a device.

    The MLIR module is not kept: the executable holds what XLA made of it, and nothing else.

    Args:
        computation: an XlaComputation, or a StablehloModule that was lowered or loaded.
        device: a jax.Device, "cpu", "gpu:1", ...; None for jax's default device.

    Returns:
        A callable Executable.

    Raises:
        LoweringError: the computation can't be said in StableHLO.
        CompileError: XLA can't compile it for this device.
        DeviceError: there is no such device.
        OperandError: neither a computation nor a module.

    Example:
        >>> import lowering
        >>> module = lowering.load_bytes('''
        ... func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        ...   %0 = stablehlo.negate %x : tensor<2xf32>
        ...   return %0 : tensor<2xf32>
        ... }''')
        >>> import numpy as np
        >>> lowering.compile(module, "cpu")(np.array([1, 2], np.float32))
        Array([-1., -2.], dtype=float32)
    """
    if isinstance(computation, XlaComputation):
        from lowering.lowering import lower  # which builds on modules, as this module does

        computation = lower(computation)
    if not isinstance(computation, StablehloModule):
        hint = ""
        if isinstance(computation, XlaOp):
            hint = "\nfix: build the computation first: op.builder.build(op)"
        raise OperandError(
            f"compile: expected an XlaComputation or a StablehloModule, got {computation!r}{hint}",
            op="compile",
        )
    target = find_device(device)
    shape = computation.program_shape
    _check_static(computation.name, shape)
    legal = legalize(computation.module, computation.name, target.platform)
    check_compilable(legal.operation, computation.name, target.platform)
    try:
        loaded = jaxlib_api.compile_and_load([target], legal.code, callbacks=legal.callbacks)
    except ValueError as error:
        raise CompileError(
            f"compile: XLA can't compile {computation.name} for {target.platform}: "
            f"{_plain_reason(str(error))}",
            detail=str(error),
        ) from None
    return Executable(loaded, computation.name, shape, target)


def _check_static(name: str, shape: ProgramShape) -> None:
    """Refuses dynamic sizes where a program is entered and left."""
    named = dict(zip(shape.parameter_names, shape.parameters, strict=True))
    places = [(f"parameter {n}", s) for n, s in named.items()]
    for what, one in [*places, ("the result", shape.result)]:
        if not one.is_static:
            raise CompileError(
                f"compile: {what} of {name} must have static sizes, got {one}\n"
                f"fix: pass the array in its largest size, and the size beside it as an s32[]",
                shapes=named,
            )


def _plain_reason(report: str) -> str:
    """The sentence in XLA's report that says why."""
    lines = [line.strip() for line in report.splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line]
    reason = errors[0].split("error:", 1)[1] if errors else (lines[0] if lines else "no reason")
    reason = re.sub(r"^(?:[A-Z_]+: )+", "", reason.strip())
    return reason[:300]
