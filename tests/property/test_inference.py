"""Compare shape inference with XLA and StableHLO on random calls.

If `builder` accepts a call, XLA infers the same shape and StableHLO's verifier accepts the op. If
it refuses a call, XLA refuses it as well, unless `STRICTER` lists a rule of the document.

The environment variable HYPOTHESIS_EXAMPLES is the number of calls of each family.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from property.families import FAMILIES
from property.oracles import (
    RefusedError,
    Xla,
    check_accepted,
    inferred_by_xla,
    root_of,
    with_another_shape,
    without_layouts,
)
from property.strategies import Call

import builder as xb

EXAMPLES: Final = int(os.environ.get("HYPOTHESIS_EXAMPLES", "100"))

# Calls that XLA's inference accepts and `builder` refuses: patterns of the op and of the message.
# See docs/architecture.md, "Strictness".
STRICTER: Final = [
    # Floating-point types do not mix; the operands of a product have one element type.
    (r"\w+", r"must have one element type|have different element types|must be of one type"),
    # Complex numbers have no order and no cube root; shifts and mulhi require integers.
    (r"max|min|clamp|compare|cbrt|rem", r"must be of .* type, got c|no order"),
    (r"shift_\w+|mulhi", r"must be of integer type"),
    # A sort needs a dimension and a comparator of its element types; after_all needs tokens.
    (r"sort", r"dimension must be a dimension|scalar has no dimension|comparator must"),
    (r"after_all", r"must be a token"),
    # Initial values and updates have the element type of the operand.
    (
        r"reduce\w*|select_and_scatter\w*|scatter",
        r"of the type of|operand's (element )?type|signature",
    ),
    # Batching dimensions have equal sizes in operand and indices, and slices of size 1.
    (r"gather|scatter", r"batching"),
    (r"gather", r"slice size of a collapsed dimension must be 1, got 0"),
    # Mean and variance have one number for each feature, like the other vectors.
    (r"batch_norm_inference", r"(mean|variance) must be a vector of one number for each feature"),
    (r"batch_norm_\w+", r"feature_index must be a dimension"),
    # The operands of a map have the types of its computation's parameters.
    (r"map", r"computation must be of signature"),
    # A transform of length 0 requires an empty operand.
    (r"fft", r"must be of size 0 for IRFFT|must not be negative"),
]


BROADCASTING: Final = ("select", "clamp", "map")
"""Ops of XlaBuilder that record broadcasts of scalar operands."""


def is_stricter(call: Call, error: xb.XlaError) -> bool:
    return any(re.fullmatch(op, call.op) and re.search(text, str(error)) for op, text in STRICTER)


def recorded(call: Call) -> xb.XlaComputation | xb.XlaError:
    try:
        return call.record()
    except (xb.ShapeInferenceError, xb.SignatureError) as error:
        return error


@pytest.fixture(scope="module")
def xla() -> Iterator[Xla]:
    process = Xla()
    yield process
    process.close()


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_against_xla_and_stablehlo(family: str, xla: Xla) -> None:
    accepted = refused = 0

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(FAMILIES[family])
    def check(call: Call) -> None:
        nonlocal accepted, refused
        result = recorded(call)
        if not isinstance(result, xb.XlaError):
            accepted += 1
            check_accepted(result, xla)
            if call.line is not None and call.op not in BROADCASTING:
                # The HLO text that `builder` prints may differ from the line of the call.
                shape = without_layouts(str(result.root.shape))
                assert inferred_by_xla(call.text(), xla) == shape
        elif call.line is not None and not is_stricter(call, result):
            refused += 1
            try:
                shape = inferred_by_xla(call.text(), xla)
            except RefusedError:
                return
            pytest.fail(f"XLA infers {shape}, but builder raises\n{result}")

    check()
    # Both kinds of calls are drawn. XLA's parser refuses almost nothing in three families.
    assert accepted > EXAMPLES // 5
    assert refused or family in ("random", "collectives", "host")


ANY_SIZE: Final = frozenset(
    ("broadcast", "iota", "rng", "custom-call", "rng-bit-generator", "after-all", "outfeed")
)
"""Opcodes whose result may have any size, or has none."""


@pytest.mark.parametrize("family", FAMILIES)
def test_a_wrong_shape_is_refused(family: str, xla: Xla) -> None:
    """The comparison above can fail: a program with another result shape is refused."""
    tested: set[str] = set()

    @settings(max_examples=30, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(FAMILIES[family])
    def check(call: Call) -> None:
        result = recorded(call)
        if isinstance(result, xb.XlaError) or not all(op.shape.is_static for op in result.ops):
            return
        text = str(result)
        shape, opcode = root_of(text)
        if opcode in ANY_SIZE or re.search(r"[\[,]0[\],]", shape):
            return  # many shapes have zero elements
        tested.add(call.op)
        other = with_another_shape(text)
        try:
            xla.ask("translate", other)
        except RefusedError:
            return
        pytest.fail(f"XLA accepts another shape\n{other}")

    check()
    assert tested or family in ("random", "host")
