"""to_hlo_proto, read by XLA and by `from_hlo`."""

from __future__ import annotations

import numpy as np
import pytest

import builder as xb
import lowering
from lowering.jaxlib_api.hlo_conversion import hlo_proto_text


def scaled() -> xb.XlaComputation:
    b = xb.XlaBuilder("scaled")
    x = b.parameter(xb.f32[3], "x")
    with b.op_metadata(op_name="sum"):
        total = xb.reduce(x, 0.0, xb.add, [0])
    return b.build(xb.tuple(xb.mul(x, total)))


def test_xla_reads_the_proto() -> None:
    text = hlo_proto_text(lowering.to_hlo_proto(scaled()))
    assert text.startswith("HloModule scaled")
    assert 'op_name="sum"' in text
    assert "test_hlo_proto.py" in text


def test_an_imported_proto_is_the_same_computation() -> None:
    computation = lowering.from_hlo(lowering.to_hlo_proto(scaled()))
    assert computation.diff(scaled()).equal
    (result,) = lowering.compile(computation, "cpu")(np.float32([1, 2, 3]))
    assert result.tolist() == [6, 12, 18]


def test_equal_computations_give_equal_bytes() -> None:
    assert len({lowering.to_hlo_proto(scaled()) for _ in range(3)}) == 1


def test_another_argument_is_refused() -> None:
    with pytest.raises(
        xb.OperandError, match="to_hlo_proto: computation must be an XlaComputation"
    ):
        lowering.to_hlo_proto("HloModule m")  # type: ignore[arg-type]
