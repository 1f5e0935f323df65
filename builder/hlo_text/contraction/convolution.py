"""Convolutions in HLO text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from builder.hlo_text.contraction.dot_product import narrow, precision_text
from builder.hlo_text.printer import Printer, Written, rule
from builder.hlo_text.values import array
from builder.xla_op import XlaOp


def window_text(attributes: Mapping[str, Any], sizes: list[int]) -> str:
    """The window of these sizes, as XLA prints it: what is as usual is left out."""
    if not sizes:
        return ""
    parts = [f"size={_joined(sizes)}"]
    for name, key, usual in (
        ("stride", "window_strides", 1),
        ("pad", "padding", (0, 0)),
        ("lhs_dilate", "lhs_dilation", 1),
        ("rhs_dilate", "rhs_dilation", 1),
        ("rhs_reversal", "window_reversal", False),
    ):
        values = attributes[key]
        if any(v != usual for v in values):
            if key == "padding":
                values = [f"{low}_{high}" for low, high in values]
            elif key == "window_reversal":
                values = [int(v) for v in values]
            parts.append(f"{name}={_joined(values)}")
    return f", window={{{' '.join(parts)}}}"


def _joined(values: Any) -> str:
    return "x".join(map(str, values))


@rule("convolution")
def _convolution(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    attributes = op.attributes
    numbers = attributes["dimension_numbers"]
    kernel = array(op.operands[1])
    sizes = [kernel.dimensions[d] for d in numbers.kernel_spatial_dimensions]
    rest = f"{window_text(attributes, sizes)}, dim_labels={numbers}"
    for name in ("feature_group_count", "batch_group_count"):
        if attributes[name] != 1:
            rest += f", {name}={attributes[name]}"
    rest += precision_text(attributes["precision"])
    return narrow(printer, op, opcode, operands, rest)
