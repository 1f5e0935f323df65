"""Run a computation in two ways, and compare numbers.

`run` executes the StableHLO that `lowering` emits and, separately, the HLO text of the computation,
which XLA parses and jaxlib converts. Both results must have the same bits, including the payloads
of NaNs. The second run is omitted if XLA has the same HLO for both programs.
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
    """Return the arrays of a nested result, left to right."""
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in flat(part)]
    return [result]


def run(computation: xb.XlaComputation, *arguments: Any) -> Any:
    """Return the result on CPU as NumPy arrays, after comparing it with that of the HLO text."""
    return _run_twice(computation, arguments, flat(list(arguments)), lowering.compile)


def run_replicated(
    computation: xb.XlaComputation,
    *arguments: Any,
    num_replicas: int = 1,
    num_partitions: int = 1,
) -> list[Any]:
    """Return the results of several CPU devices, after comparing them as in `run`.

    The arguments are those of `lowering.ReplicatedExecutable`; arguments for tuples are lists.
    """

    def compiled(module: lowering.StablehloModule) -> Any:
        return lowering.compile(
            module, "cpu", num_replicas=num_replicas, num_partitions=num_partitions
        )

    leaves = _leaf_arguments(computation, arguments)
    results: list[Any] = _run_twice(computation, arguments, leaves, compiled)
    assert len(results) == num_replicas * num_partitions
    return results


def _run_twice(
    computation: xb.XlaComputation,
    arguments: Sequence[Any],
    leaf_arguments: Sequence[Any],
    compiled: Callable[[lowering.StablehloModule], Any],
) -> Any:
    module = lowering.lower(computation)
    result = compiled(module)(*arguments)
    if not is_only_parsed(computation):
        hlo = stablehlo_of_text(computation)
        if not same_program(module.bytecode, hlo):
            leaves = [leaf for leaf in flat(result) if leaf is not None]
            others = flat(compiled(trusted_module(hlo))(*leaf_arguments))
            others = [leaf for leaf in others if leaf is not None]
            for leaf, other in zip(leaves, others, strict=True):
                assert_identical(np.asarray(leaf), np.asarray(other))
    return jax.tree_util.tree_map(np.asarray, result)


def _leaf_arguments(computation: xb.XlaComputation, arguments: Sequence[Any]) -> list[Any]:
    """Return the arguments with tuples flattened, because XLA's HLO parser flattens parameters."""
    leaves: list[Any] = []
    for argument, shape in zip(arguments, computation.program_shape.parameters, strict=True):
        if isinstance(shape, xb.TupleShape):
            leaves.extend(map(list, zip(*(flat(each) for each in argument), strict=True)))
        else:
            leaves.append(argument)
    return leaves


@contextmanager
def compiled_once(*compiled: tuple[bytes, Any]) -> Iterator[list[tuple[bytes, Any]]]:
    """Compile programs that become the same HLO only once.

    For tests that compare two forms of a program, which spend most of their time compiling. Each
    form is still lowered, legalized and executed separately. The programs must be for the same
    device and must not call Python functions.

    Args:
        compiled: modules that are compiled already, with jaxlib's executables.

    Yields:
        All compiled modules and their executables, updated as more are compiled.
    """
    executables = list(compiled)
    original = compilation.compile_and_load

    def compile_and_load(devices: Sequence[Any], code: bytes, **more: Any) -> Any:
        assert len(devices) == 1
        assert not more.get("callbacks")
        for other, executable in executables:
            if same_program(code, other):
                return executable
        executables.append((code, original(devices, code, **more)))
        return executables[-1][1]

    # The type of the original has the names of all parameters.
    compilation.compile_and_load = compile_and_load  # type: ignore[assignment]  # a patch
    try:
        yield executables
    finally:
        compilation.compile_and_load = original


def trusted_module(module_bytecode: bytes) -> lowering.StablehloModule:
    """Load bytecode written by jaxlib.

    It is sealed here, because bytecode without a checksum is first read in another process.
    """
    read = mlir.read_module(mlir.new_context(), module_bytecode)
    return lowering.load_bytes(b"".join(module_reader.sealed_bytecode(read)))


def stablehlo_of_text(computation: xb.XlaComputation) -> bytes:
    """Return MLIR bytecode of the HLO text, parsed by XLA and converted by jaxlib.

    Composites with a tuple result are read as calls, because jaxlib converts them to a module that
    does not verify.
    """
    text = str(computation)
    if any(op.opcode == "composite" and op.shape.is_tuple for op in _all_ops(computation)):
        text = text.replace(", is_composite=true", "")
    return hlo_conversion.hlo_text_to_stablehlo(text)


def _all_ops(computation: xb.XlaComputation) -> Iterator[xb.XlaOp]:
    for each in (computation, *computation.called_computations()):
        yield from each.ops


def is_only_parsed(computation: xb.XlaComputation) -> bool:
    """Return whether the HLO text can't be executed, after checking that XLA parses it.

    If StableHLO can't express an op, its verifier must refuse the module converted by jaxlib.
    """
    ops = list(_all_ops(computation))
    has_unconverted = any(map(is_unconverted, ops))
    has_inexpressible = any(map(is_inexpressible, ops))
    if not (has_unconverted or has_inexpressible):
        return False
    text = str(computation)
    assert hlo_conversion.parsed_hlo_text(text)
    if not has_unconverted:
        code = hlo_conversion.hlo_text_to_stablehlo(text)
        with pytest.raises(mlir.UnreadableModuleError):
            mlir.read_module(mlir.new_context(), code)
    return True


def is_unconverted(op: xb.XlaOp) -> bool:
    """Whether jaxlib does not convert the op from HLO to StableHLO."""
    return op.opcode == "mulhi"


def is_inexpressible(op: xb.XlaOp) -> bool:
    """Whether the op is one instruction in HLO that StableHLO's verifier refuses."""
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


def same_program(first: bytes, second: bytes) -> bool:
    """Whether two modules become the same HLO except for names; False if that is not certain.

    XLA's text omits the data of large constants, and requested layouts.
    """
    if b"layout_mode" in first + second:
        return False
    modules = (_worked_around(first), _worked_around(second))
    texts = [hlo_conversion.stablehlo_to_hlo_text(module) for module in modules]
    # The first line has the layouts of arguments and results, and aliases, after the name.
    signatures = [text.partition("\n")[0].partition(",")[2] for text in texts]
    return (
        signatures[0] == signatures[1]
        and "{...}" not in texts[0]
        and _without_names(texts[0]) == _without_names(texts[1])
    )


def _worked_around(module_bytecode: bytes) -> bytes:
    """Apply the rewrites for defects of XLA; some defects crash the process in printing."""
    table = {
        name: [rewrite for rewrite in rewrites if "Shown by:" in str(rewrite.apply.__doc__)]
        for name, rewrites in rewrites_for("cpu").items()
    }
    module = mlir.read_module(mlir.new_context(), module_bytecode)
    changed = apply_rewrites(Target("test", "cpu"), module.operation, table)
    return mlir.bytecode(module) if changed else module_bytecode


def _without_names(text: str) -> str:
    """Return HLO text with numbered instructions, and computations replaced by their text."""
    bodies: dict[str, str] = {}
    for computation in _COMPUTATION.finditer(text):  # callees come before their callers
        numbers: dict[str, str] = {}

        def renamed(match: re.Match[str], numbers: dict[str, str] = numbers) -> str:
            name = match[0]
            return bodies.get(name) or numbers.setdefault(name, f"%{len(numbers)}")

        body = _NAME.sub(renamed, computation[2])
        # Long bodies are hashed, so that nested calls do not grow exponentially.
        bodies[computation[1]] = f"<{body}>" if len(body) < 200 else f"<{hash(body)}>"
        last = body
    return last


def parameter_like(b: xb.XlaBuilder, array: np.ndarray) -> xb.XlaOp:
    """Record a parameter with the array's element type and sizes."""
    return b.parameter(xb.array_shape(xb.as_primitive_type(array.dtype), array.shape))


def operation_names(computation: xb.XlaComputation | lowering.StablehloModule) -> list[str]:
    """Return the names of the operations in @main without the return."""
    module = computation
    if isinstance(computation, xb.XlaComputation):
        module = lowering.lower(computation)
    main = next(f for f in module.module.body.operations if str(f.name) == '"main"')
    return [op.operation.name for op in main.regions[0].blocks[0].operations][:-1]


def branch(
    condition: xb.XlaOp, on_true: Callable[[], xb.XlaOp], on_false: Callable[[], xb.XlaOp]
) -> xb.XlaOp:
    """Record a conditional whose branches have no operand and capture values."""
    return xb.conditional(condition, None, on_true, None, on_false)


def small_numbers(t: xb.PrimitiveType, sizes: Sequence[int], seed: int = 7) -> np.ndarray:
    """Return reproducible values that 4 bits represent and whose sums few types round."""
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
    """Return small integers whose sums of products the type represents, or any of an integer type.

    Floating-point sums are then exact in any order, so there is one correct result.
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
    """Check that shapes, types and all bits are equal, including NaNs."""
    assert a.shape == b.shape
    assert a.dtype == b.dtype
    if a.tobytes() != b.tobytes():
        rows = [np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b)]
        same = (rows[0] == rows[1]).reshape(a.size, -1).all(axis=1)
        indices = np.flatnonzero(~same)
        got, expected = (x.reshape(-1)[indices[:5]] for x in (a, b))
        raise AssertionError(
            f"{indices.size} of {a.size} elements differ, the first at {indices[0]}: {got} instead "
            f"of {expected}, as bytes {got.tobytes().hex()} instead of {expected.tobytes().hex()}"
        )


def assert_same_bits(a: np.ndarray, b: np.ndarray) -> None:
    """Check that shapes, types and bits are equal, except for the bits of NaNs.

    For computed results, because no specification defines the payload of a NaN. Use
    `assert_identical` for elements that are only moved.
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
    """Return the bits of the elements as unsigned integers."""
    raw = np.ascontiguousarray(a).reshape(-1).view(f"u{a.dtype.itemsize}")
    return raw.reshape(a.shape)


def ulp_distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the distance of elements of one float type, in steps between representable numbers.

    It is 0 for two NaNs and for the two zeros. Infinity is one step above the largest number.
    """
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    sign = np.uint64(1) << np.uint64(8 * a.dtype.itemsize - 1)

    def ordinal(x: np.ndarray) -> np.ndarray:
        # Sign and magnitude to a number that increases with the value.
        bits = _bits(x).astype(np.uint64)
        return np.where(bits & sign, sign - (bits & ~sign), sign + bits)

    x, y = ordinal(a), ordinal(b)
    distance = np.where(x > y, x - y, y - x)
    return np.where((a != a) & (b != b), np.uint64(0), distance)
