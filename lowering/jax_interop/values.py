"""Errors for ops that are passed to functions of jax."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

import jax

from builder.errors import BuilderError, error_of
from builder.graph.xla_op import XlaOp
from builder.support.frames import caller_frame
from lowering.jaxlib_api.jax_arrays import refuse_values

_JAX: Final = f"{Path(jax.__file__).parent}{os.sep}"


def refuse_ops() -> None:
    """Make functions of jax refuse ops with an error of this library."""
    refuse_values(XlaOp, _error)


def _error(op: Any) -> BuilderError:
    rule = "an XlaOp is not an array of jax, because it is recorded and not computed"
    fix = (
        "call a function of jax with lowering.apply(function, op), as in "
        "lowering.apply(jax.nn.relu, op); or use the ops of builder, and lowering.gradients"
    )
    got, shapes = f"\n  {op!r}", {"operand": op.shape}
    error = error_of(BuilderError, "jax", rule, fix, got=got, shapes=shapes)
    frame = caller_frame(sys._getframe(1))
    while frame is not None and frame.f_code.co_filename.startswith(_JAX):
        frame = caller_frame(frame.f_back)
    error._locate(frame)
    return error
