"""Linear algebra and Fourier transforms in HLO text."""

from __future__ import annotations

from builder.hlo_text.printer import Printer, Written, rule
from builder.hlo_text.words import braces
from builder.xla_op import XlaOp


@rule("cholesky")
def _cholesky(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    return opcode, operands, f", lower={str(op.attributes['lower']).lower()}"


@rule("triangular_solve")
def _triangular_solve(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    flags = "".join(
        f", {name}={str(op.attributes[name]).lower()}"
        for name in ("left_side", "lower", "unit_diagonal")
    )
    return opcode, operands, f"{flags}, transpose_a={op.attributes['transpose_a'].name}"


@rule("fft")
def _fft(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    attributes = op.attributes
    length = braces(attributes["fft_length"])
    return opcode, operands, f", fft_type={attributes['fft_type'].name}, fft_length={length}"
