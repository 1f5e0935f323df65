"""What the tests share: running a computation two ways, and comparing numbers.

Every computation that a test runs goes through `run`, which has XLA run the StableHLO of our own
lowering and, separately, the HLO text that the computation prints, read by XLA's own parser and
converted by jaxlib; both must give the same bits, payloads of NaNs included. Where XLA makes the
same program of both, the second run is left out: it could give nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
import pytest

import builder as xb
import lowering
from lowering.jaxlib_api import compilation, hlo_conversion, mlir
from lowering.legalize.registry import Target, rewrites_for
from lowering.legalize.worklist import apply_rewrites
from lowering.reading import module_reader


def flat(result: Any) -> list[Any]:
    """The arrays of a nested result, left to right."""
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in flat(part)]
    return [result]


def run(computation: xb.XlaComputation, *arguments: Any) -> Any:
    """The result on CPU as NumPy arrays, nested as the root is; checked against the HLO text."""
    module = lowering.lower(computation)
    result = lowering.compile(module)(*arguments)
    if is_only_parsed(computation):
        return jax.tree_util.tree_map(np.asarray, result)
    hlo = stablehlo_of_text(computation)
    if _same_program(module.bytecode, hlo):
        return jax.tree_util.tree_map(np.asarray, result)
    theirs = lowering.compile(trusted_module(hlo))(*flat(list(arguments)))
    ours = [np.asarray(leaf) for leaf in flat(result) if leaf is not None]
    leaves = [np.asarray(leaf) for leaf in flat(theirs) if leaf is not None]
    assert len(leaves) == len(ours)
    for mine, other in zip(ours, leaves, strict=True):
        assert_identical(mine, other)
    return jax.tree_util.tree_map(np.asarray, result)


def run_replicated(
    computation: xb.XlaComputation,
    *arguments: Any,
    num_replicas: int = 1,
    num_partitions: int = 1,
) -> list[Any]:
    """`run` on several CPU devices: a list of their results, checked against the HLO text.

    Arguments are as `lowering.ReplicatedExecutable` takes them, those for tuples as lists.
    """
    count = num_replicas * num_partitions
    where = {"num_replicas": num_replicas, "num_partitions": num_partitions}
    module = lowering.lower(computation)
    result = lowering.compile(module, "cpu", **where)(*arguments)
    assert len(result) == count
    if is_only_parsed(computation):
        return [jax.tree_util.tree_map(np.asarray, one) for one in result]
    hlo = stablehlo_of_text(computation)
    if _same_program(module.bytecode, hlo):
        return [jax.tree_util.tree_map(np.asarray, one) for one in result]
    theirs = lowering.compile(trusted_module(hlo), "cpu", **where)(
        *_leaf_arguments(computation, arguments)
    )
    for mine, other in zip(result, theirs, strict=True):
        ours = [np.asarray(leaf) for leaf in flat(mine) if leaf is not None]
        leaves = [np.asarray(leaf) for leaf in flat(other) if leaf is not None]
        assert len(leaves) == len(ours)
        for a, b in zip(ours, leaves, strict=True):
            assert_identical(a, b)
    return [jax.tree_util.tree_map(np.asarray, one) for one in result]


def _leaf_arguments(computation: xb.XlaComputation, arguments: Sequence[Any]) -> list[Any]:
    """The arguments with tuples opened: HLO that is read by XLA takes the leaves."""
    found: list[Any] = []
    for argument, shape in zip(arguments, computation.program_shape.parameters, strict=True):
        if isinstance(shape, xb.TupleShape):
            found.extend(map(list, zip(*(flat(one) for one in argument), strict=True)))
        else:
            found.append(argument)
    return found


@contextmanager
def compiled_once(*compiled: tuple[bytes, Any]) -> Iterator[list[tuple[bytes, Any]]]:
    """Meanwhile, `lowering` has programs compiled once of which XLA makes the same HLO.

    For comparisons of one program that comes in two ways: compiling is nearly all of their time.
    Each is still lowered, legalized, given its arguments and run by itself. They are to be for one
    device, the same, and to call no Python functions.

    Args:
        compiled: modules that somebody else has had compiled, and jaxlib's executables of them.

    Yields:
        all that are compiled by now, likewise.
    """
    known = list(compiled)
    original = compilation.compile_and_load

    def compile_and_load(devices: Sequence[Any], code: bytes, **more: Any) -> Any:
        assert len(devices) == 1
        assert not more.get("callbacks")
        for other, executable in known:
            if _same_program(code, other):
                return executable
        known.append((code, original(devices, code, **more)))
        return known[-1][1]

    compilation.compile_and_load = compile_and_load  # type: ignore[assignment]  # its names differ
    try:
        yield known
    finally:
        compilation.compile_and_load = original


def trusted_module(module_bytecode: bytes) -> lowering.StablehloModule:
    """The module of bytecode that jaxlib has just written.

    Sealed by ourselves: bytecode without a checksum would be tried in another process first.
    """
    read = mlir.read_module(mlir.new_context(), module_bytecode)
    return lowering.load_bytes(b"".join(module_reader.sealed_bytecode(read)))


def stablehlo_of_text(computation: xb.XlaComputation) -> bytes:
    """MLIR bytecode of the module that XLA's parser and jaxlib make of the HLO text.

    Composites that give a tuple, of which jaxlib makes a module that does not verify, are read as
    the calls that they are.
    """
    text = str(computation)
    if any(op.opcode == "composite" and op.shape.is_tuple for op in _all_ops(computation)):
        text = text.replace(", is_composite=true", "")
    return hlo_conversion.hlo_text_to_stablehlo(text)


def _all_ops(computation: xb.XlaComputation) -> Iterator[xb.XlaOp]:
    for one in (computation, *computation.called_computations()):
        yield from one.ops


def is_only_parsed(computation: xb.XlaComputation) -> bool:
    """Whether the HLO text can't be executed; XLA's parser must then read it.

    Of what StableHLO can't express, its verifier must refuse what jaxlib converts the text to.
    """
    ops = list(_all_ops(computation))
    is_unknown = any(map(is_unconverted, ops))
    is_refused = any(map(is_inexpressible, ops))
    if not (is_unknown or is_refused):
        return False
    text = str(computation)
    assert hlo_conversion.parsed_hlo_text(text)
    if is_refused and not is_unknown:
        code = hlo_conversion.hlo_text_to_stablehlo(text)
        with pytest.raises(mlir.UnreadableModuleError):
            mlir.read_module(mlir.new_context(), code)
    return True


def is_unconverted(op: xb.XlaOp) -> bool:
    """An op that jaxlib does not convert from HLO to StableHLO."""
    return op.opcode == "mulhi"


def is_inexpressible(op: xb.XlaOp) -> bool:
    """An op that is one operation in HLO, and that StableHLO's verifier refuses."""
    if op.opcode in ("broadcast_in_dim", "reshape"):
        return sum(op.shape.dynamic_dimensions) > 1
    if op.opcode == "reduce_scatter" and len(op.operands) > 1:
        return True
    along = {"all_gather": "all_gather_dim", "reduce_scatter": "scatter_dimension"}.get(op.opcode)
    return along is not None and any(
        operand.shape.dimensions[op.attributes[along]] == 0 for operand in op.operands
    )


_COMPUTATION = re.compile(r"^(?:ENTRY )?(\S+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][\w.\-]*\.\d+")


def _same_program(ours: bytes, theirs: bytes) -> bool:
    """Whether XLA makes the same HLO of two modules, but for names; false where it can't be told.

    XLA leaves out the data of large constants where it prints them, and layouts that are asked for.
    """
    if b"layout_mode" in ours + theirs:
        return False
    texts = [hlo_conversion.stablehlo_to_hlo_text(_mended(module)) for module in (ours, theirs)]
    # After the module's name: the layouts of arguments and results, and which share memory.
    signatures = [text.partition("\n")[0].partition(",")[2] for text in texts]
    return (
        signatures[0] == signatures[1]
        and "{...}" not in texts[0]
        and _without_names(texts[0]) == _without_names(texts[1])
    )


def _mended(module_bytecode: bytes) -> bytes:
    """A module with defects worked around, some of which end the process where XLA prints it."""
    table = {
        name: [one for one in rewrites if "Shown by:" in str(one.apply.__doc__)]
        for name, rewrites in rewrites_for("cpu").items()
    }
    module = mlir.read_module(mlir.new_context(), module_bytecode)
    changed = apply_rewrites(Target("test", "cpu"), module.operation, table)
    return mlir.bytecode(module) if changed else module_bytecode


def _without_names(text: str) -> str:
    """HLO text with instructions numbered in order, and called computations in their places."""
    written: dict[str, str] = {}
    for computation in _COMPUTATION.finditer(text):  # callees come before their callers
        numbers: dict[str, str] = {}

        def renamed(match: re.Match[str], numbers: dict[str, str] = numbers) -> str:
            name = match[0]
            return written.get(name) or numbers.setdefault(name, f"%{len(numbers)}")

        body = _NAME.sub(renamed, computation[2])
        # A callee stands for its text, shortly.
        written[computation[1]] = f"<{body}>" if len(body) < 200 else f"<{hash(body)}>"
        last = body
    return last


def parameter_like(b: xb.XlaBuilder, array: np.ndarray) -> xb.XlaOp:
    """A parameter of the array's type and sizes."""
    return b.parameter(xb.array_shape(xb.as_primitive_type(array.dtype), array.shape))


def operation_names(computation: xb.XlaComputation | lowering.StablehloModule) -> list[str]:
    """The operations of @main, but the return, of a module or of what a computation lowers to."""
    module = computation
    if isinstance(computation, xb.XlaComputation):
        module = lowering.lower(computation)
    main = next(one for one in module.module.body.operations if str(one.name) == '"main"')
    return [one.operation.name for one in main.regions[0].blocks[0].operations][:-1]


def branch(
    condition: xb.XlaOp, on_true: Callable[[], xb.XlaOp], on_false: Callable[[], xb.XlaOp]
) -> xb.XlaOp:
    """A conditional whose branches use values from outside of them."""
    return xb.conditional(condition, None, on_true, None, on_false)


def small_numbers(t: xb.PrimitiveType, sizes: Sequence[int], seed: int = 7) -> np.ndarray:
    """Values that even 4 bits hold, and whose sums few types round; the same ones every time."""
    rng = np.random.default_rng(seed)
    if t is xb.pred:
        return rng.integers(0, 2, sizes).astype(bool)
    if t is xb.f8e8m0fnu:
        return np.exp2(rng.integers(-2, 3, sizes)).astype(t.dtype)
    if t.is_complex:
        return (rng.integers(-3, 4, sizes) + 1j * rng.integers(-3, 4, sizes)).astype(t.dtype)
    low = max(-3, t.min)
    return rng.integers(low, min(3, t.max), sizes, endpoint=True).astype(t.dtype)


def summable(random: np.random.Generator, t: xb.PrimitiveType, sizes: Sequence[int]) -> np.ndarray:
    """Small integers, whose products and sums the type holds; all integers of integer types.

    Sums in floating point are then exact in any order, and the result has one right value.
    """
    if t is xb.pred:
        return random.integers(0, 2, sizes).astype(bool)
    if t.is_complex:
        return (random.integers(-4, 5, sizes) + 1j * random.integers(-4, 5, sizes)).astype(t.dtype)
    if t.is_integral:
        kind = np.uint64 if t.min == 0 else np.int64
        return random.integers(t.min, t.max, sizes, kind, True).astype(t.dtype)
    if t is xb.f8e8m0fnu:
        return np.exp2(random.integers(-1, 2, sizes)).astype(t.dtype)
    low = 0 if t.bits < 16 else -2
    return random.integers(low, 2, sizes).astype(np.float64).astype(t.dtype)


def assert_identical(a: np.ndarray, b: np.ndarray) -> None:
    """Equal shapes and types, and every bit the same, those of NaNs too."""
    assert a.shape == b.shape
    assert a.dtype == b.dtype
    if a.tobytes() != b.tobytes():
        rows = [np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b)]
        same = (rows[0] == rows[1]).reshape(a.size, -1).all(axis=1)
        places = np.flatnonzero(~same)
        some = [x.reshape(-1)[places[:5]] for x in (a, b)]
        raise AssertionError(
            f"{places.size} of {a.size} differ, from element {places[0]} on: {some[0]} instead of "
            f"{some[1]}, as bytes {some[0].tobytes().hex()} instead of {some[1].tobytes().hex()}"
        )


def assert_same_bits(a: np.ndarray, b: np.ndarray) -> None:
    """Equal shapes and types, and the same bits but in NaNs, of which any equals any other.

    For results that are computed: which NaN comes out is nowhere promised. What is only moved is
    compared by `assert_identical`.
    """
    assert a.shape == b.shape
    assert a.dtype == b.dtype
    if np.issubdtype(a.dtype, np.complexfloating):
        assert_same_bits(np.ascontiguousarray(a.real), np.ascontiguousarray(b.real))
        assert_same_bits(np.ascontiguousarray(a.imag), np.ascontiguousarray(b.imag))
        return
    with np.errstate(invalid="ignore"):  # signalling NaNs
        same = (_bits(a) == _bits(b)) | ((a != a) & (b != b))
    assert same.all(), f"{a[~same][:5]} instead of {b[~same][:5]}"


def _bits(a: np.ndarray) -> np.ndarray:
    """The elements' bits as unsigned integers."""
    raw = np.ascontiguousarray(a).reshape(-1).view(f"u{a.dtype.itemsize}")
    return raw.reshape(a.shape)


def ulp_distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How many representable numbers lie between the elements of two arrays of one float type.

    0 where both are NaN and between the two zeros; infinities are one step beyond the largest
    number.
    """
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    sign = np.uint64(1) << np.uint64(8 * a.dtype.itemsize - 1)

    def place(x: np.ndarray) -> np.ndarray:
        # From sign and magnitude to a number line: negative numbers count down from zero.
        bits = _bits(x).astype(np.uint64)
        return np.where(bits & sign, sign - (bits & ~sign), sign + bits)

    x, y = place(a), place(b)
    distance = np.where(x > y, x - y, y - x)
    return np.where((a != a) & (b != b), np.uint64(0), distance)
