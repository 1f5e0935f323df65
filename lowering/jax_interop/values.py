"""Errors for ops that are passed to functions of jax."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

import jax

from builder.errors import BuilderError, error_of
from builder.graph.xla_op import XlaOp
from builder.support.frames import caller_frame
from lowering.jaxlib_api.jax_arrays import refuse_values

_JAX: Final = f"{Path(jax.__file__).parent}{os.sep}"
_INSTALLED: Final = f"{Path(jax.__file__).parent.parent}{os.sep}"
"""The folder of jax and of libraries that call it, such as optax."""


def refuse_ops() -> None:
    """Make functions of jax refuse ops with an error of this library.

    jax's primitives look up the type of a value in jax's tables. Functions of `jax.numpy` look up
    the attribute `__jax_array__` first, and would report that the value has none.
    """
    refuse_values(XlaOp, _error)
    XlaOp.__jax_array__ = property(_refused)  # type: ignore[attr-defined]  # it is jax's protocol


def _refused(op: XlaOp) -> NoReturn:
    """Raise the error for an op in a function of jax; elsewhere the attribute does not exist.

    The operators of jax's arrays look the attribute up too. If it does not exist, they leave the
    operation to the operator of the op, whose error has the better fix.
    """
    frame = caller_frame(sys._getframe(1))
    file = "" if frame is None else frame.f_code.co_filename
    if not file.startswith(_JAX) or file.endswith("array_methods.py"):
        raise AttributeError("'XlaOp' object has no attribute '__jax_array__'")
    raise _error(op)


def _error(op: Any) -> BuilderError:
    rule = "an XlaOp is not an array of jax, because it is recorded and not computed"
    fix = (
        "call a function of jax with lowering.apply(function, op), as in "
        "lowering.apply(jax.nn.relu, op); or use the ops of builder, and lowering.gradients"
    )
    got, shapes = f"\n  {op!r}", {"operand": op.shape}
    error = error_of(BuilderError, "jax", rule, fix, got=got, shapes=shapes)
    frame = caller_frame(sys._getframe(1))
    error._locate(_outside(_INSTALLED, frame) or _outside(_JAX, frame))
    return error


def _outside(folder: str, frame: FrameType | None) -> FrameType | None:
    """Return `frame`, or its nearest caller that is outside a folder and this library."""
    while frame is not None and frame.f_code.co_filename.startswith(folder):
        frame = caller_frame(frame.f_back)
    return frame
