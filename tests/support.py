"""What the tests share: running a computation two ways, and comparing numbers.

Every computation that a test runs goes through `run`, which has XLA run the StableHLO of our own
lowering and, separately, the HLO text that the computation prints, read by XLA's own parser and
converted by jaxlib; both must give the same bits. Where XLA makes the same program of both, the
second run is left out: it could give nothing else.
"""

from __future__ import annotations

import re
from typing import Any

import jax
import numpy as np

import builder as xb
import lowering
from lowering import jaxlib_api, module_reader
from lowering.rules.elementwise import (
    counts_from_negative_zero,
    is_awkward_bitcast,
    is_awkward_power,
)

# Opcodes that XLA's HLO parser reads and jaxlib converts, but that not every version executes
# that way: 0.10 has no code for them on CPU, and 0.12 dies on complex numbers. Lowering writes
# them as CHLO, which both run.
NOT_EXECUTABLE_AS_HLO = {"acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh"}

# XLA's CPU backend counts the bits of a negative s2 or s4 after extending its sign. Lowering goes
# round that; the HLO text says what was recorded.
# It dies of 2-bit elements in concatenate, and can't multiply them, nor 4-bit ones into wider ones.
NARROW_SIGNED = {xb.s2, xb.s4}


def flat(result: Any) -> list[Any]:
    """The arrays of a nested result, left to right."""
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in flat(part)]
    return [result]


def run(computation: xb.XlaComputation, *arguments: Any) -> Any:
    """The result on CPU as NumPy arrays, nested as the root is; checked against the HLO text."""
    module = lowering.lower(computation)
    result = lowering.compile(module)(*arguments)
    hlo = jaxlib_api.hlo_text_to_stablehlo(str(computation))
    if not _executable_as_hlo(computation) or _same_program(module.bytecode, hlo):
        return jax.tree_util.tree_map(np.asarray, result)
    # Sealed by ourselves: bytecode without a checksum is tried in another process first.
    read = jaxlib_api.read_module(jaxlib_api.new_context(), hlo)
    again = lowering.load_bytes(module_reader.sealed(read))
    theirs = lowering.compile(again)(*flat(list(arguments)))
    ours = [np.asarray(leaf) for leaf in flat(result) if leaf is not None]
    leaves = [np.asarray(leaf) for leaf in flat(theirs) if leaf is not None]
    assert len(leaves) == len(ours)
    for mine, other in zip(ours, leaves, strict=True):
        assert mine.dtype == other.dtype
        assert_same_bits(mine, other)
    return jax.tree_util.tree_map(np.asarray, result)


_COMPUTATION = re.compile(r"^(?:ENTRY )?(\S+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][\w.\-]*\.\d+")


def _same_program(ours: bytes, theirs: bytes) -> bool:
    """Whether XLA makes the same HLO of two modules, but for names; false where it can't be told.

    XLA leaves out the data of large constants where it prints them.
    """
    texts = [jaxlib_api.stablehlo_to_hlo_text(module) for module in (ours, theirs)]
    return "{...}" not in texts[0] and _without_names(texts[0]) == _without_names(texts[1])


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


def _executable_as_hlo(computation: xb.XlaComputation) -> bool:
    for one in (computation, *computation.called_computations()):
        for op in one.ops:
            if op.opcode in NOT_EXECUTABLE_AS_HLO:
                return False
            if op.opcode == "popcnt" and op.shape.element_type in NARROW_SIGNED:
                return False
            # A pred is one bit to the language and eight to the backend; 0 ** 64 is 1 to it.
            if op.opcode == "bitcast_convert" and is_awkward_bitcast(op):
                return False
            if op.opcode == "power" and is_awkward_power(op):
                return False
            # XLA makes [0, 1, 2] of the constant [-0, 1, 2]; lowering goes round that too.
            if op.opcode == "constant" and counts_from_negative_zero(op.attributes["value"]):
                return False
            if op.opcode == "concatenate" and op.shape.element_type.bits == 2:
                return False
            if op.opcode == "dot_general" and _is_narrow_dot(op):
                return False
    return True


def _is_narrow_dot(op: xb.XlaOp) -> bool:
    """A product that XLA's CPU backend can't do; lowering puts it another way."""
    source, result = op.operands[0].shape.element_type, op.shape.element_type
    narrow = source.bits < 8 and source is not xb.pred
    return narrow and (source.bits == 2 or source is not result)


def assert_same_bits(a: np.ndarray, b: np.ndarray) -> None:
    """Equal shapes, types and bits; any NaN equals any other."""
    assert a.shape == b.shape
    assert a.dtype == b.dtype
    if np.issubdtype(a.dtype, np.complexfloating):
        assert_same_bits(np.ascontiguousarray(a.real), np.ascontiguousarray(b.real))
        assert_same_bits(np.ascontiguousarray(a.imag), np.ascontiguousarray(b.imag))
        return
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
