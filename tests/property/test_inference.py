"""Shape inference against XLA's and StableHLO's, on calls that are drawn.

What is accepted here, XLA accepts and infers the same shape of, and StableHLO's verifier takes.
What is refused here, XLA refuses; where it does not, the document does, and `STRICTER` says so.

HYPOTHESIS_EXAMPLES=5000 in the environment draws that many calls of each family.
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

# Where XLA's inference takes more than is taken here: the ops, and words of the refusal. See
# docs/architecture.md, "Strictness".
STRICTER: Final = [
    # Floating-point types do not mix; the operands of a product have one type.
    (r"\w+", r"must have one element type|have different element types|must be of one type"),
    # Complex numbers have no order and no cube root; shifts and mulhi are of integers.
    (r"max|min|clamp|compare|cbrt|rem", r"must be of .* type, got c|no order"),
    (r"shift_\w+|mulhi", r"must be of integer type"),
    # A sort is along a dimension, by a comparator of its elements; only tokens are joined.
    (r"sort", r"dimension must be one of|scalar has no dimension|comparator must"),
    (r"after_all", r"must be a token"),
    # Values that are folded are of the type of what they are folded into.
    (
        r"reduce\w*|select_and_scatter\w*|scatter",
        r"of the type of|operand's (element )?type|signature",
    ),
    # Batching dimensions have equal sizes in operand and indices, and are looked up one by one.
    (r"gather|scatter", r"batching"),
    (r"gather", r"slice size of a collapsed dimension must be 1, got 0"),
    # Each vector of a normalization has one number for each feature, also mean and variance.
    (r"batch_norm_inference", r"(mean|variance) must be a vector of one number for each feature"),
    (r"batch_norm_\w+", r"feature_index must be a dimension"),
    # Nothing is left over of a transform of no length.
    (r"fft", r"must be of size 0 for IRFFT|which are not negative"),
]


BROADCASTING: Final = ("select", "clamp", "map")
"""Ops of XlaBuilder that broadcast scalars before HLO sees them."""


def is_stricter(call: Call, error: xb.XlaError) -> bool:
    return any(re.fullmatch(op, call.op) and re.search(words, str(error)) for op, words in STRICTER)


def ours(call: Call) -> xb.XlaComputation | xb.XlaError:
    try:
        return call.record()
    except (xb.ShapeInferenceError, xb.SignatureError) as error:
        return error


@pytest.fixture(scope="module")
def xla() -> Iterator[Xla]:
    one = Xla()
    yield one
    one.close()


@pytest.mark.parametrize("family", FAMILIES)
def test_against_xla_and_stablehlo(family: str, xla: Xla) -> None:
    accepted = refused = 0

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(FAMILIES[family])
    def check(call: Call) -> None:
        nonlocal accepted, refused
        got = ours(call)
        if not isinstance(got, xb.XlaError):
            accepted += 1
            check_accepted(got, xla)
            if call.line is not None and call.op not in BROADCASTING:
                # In XLA's own words, where the text here may be in others.
                shape = without_layouts(str(got.root.shape))
                assert inferred_by_xla(call.text(), xla) == shape
        elif call.line is not None and not is_stricter(call, got):
            refused += 1
            try:
                theirs = inferred_by_xla(call.text(), xla)
            except RefusedError:
                return
            pytest.fail(f"XLA infers {theirs}, and here it is\n{got}")

    check()
    # Calls of both kinds are drawn; of three families XLA's parser refuses next to nothing.
    assert accepted > EXAMPLES // 5
    assert refused or family in ("random", "collectives", "host")


UNSAID: Final = frozenset(
    ("broadcast", "iota", "rng", "custom-call", "rng-bit-generator", "after-all", "outfeed")
)
"""Opcodes of which another size of the result is as right, or that have none."""


@pytest.mark.parametrize("family", FAMILIES)
def test_a_wrong_shape_is_noticed(family: str, xla: Xla) -> None:
    """That the check can fail: with another shape than ours a program is refused."""
    seen: set[str] = set()

    @settings(max_examples=30, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(FAMILIES[family])
    def check(call: Call) -> None:
        got = ours(call)
        if isinstance(got, xb.XlaError) or not all(op.shape.is_static for op in got.ops):
            return
        text = str(got)
        shape, opcode = root_of(text)
        if opcode in UNSAID or re.search(r"[\[,]0[\],]", shape):
            return  # of no elements there are as many in many shapes
        seen.add(call.op)
        other = with_another_shape(text)
        try:
            xla.ask("translate", other)
        except RefusedError:
            return
        pytest.fail(f"another shape goes through\n{other}")

    check()
    assert seen or family in ("random", "host")
