"""Values that jax differentiates only in forward mode: reverse mode raises an error with a line."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from builder.errors import error_of
from lowering.errors import LoweringError
from lowering.jax_interop.registry import Step


class _Refusal:
    """The error of reverse mode.

    Attributes:
        opcode: the opcode, for the text of jax's programs.
        rule: the rule of the message.
        fix: its fix.
    """

    def __init__(self, opcode: str, rule: str, fix: str) -> None:
        self.opcode = opcode
        self.rule = rule
        self.fix = fix

    def __repr__(self) -> str:
        return self.opcode


def forward_only(opcode: str, rule: str, fix: str) -> Step:
    """Return the identity of nested values; its reverse derivative raises LoweringError."""
    restrict = partial(_FORWARD_ONLY.bind, refusal=_Refusal(opcode, rule, fix))
    return partial(jax.tree_util.tree_map, restrict)


_FORWARD_ONLY: Final[Any] = Primitive("xlabuilder_forward_only")


def _transposed(*_: Any, refusal: _Refusal) -> Any:
    raise error_of(LoweringError, "to_jax", refusal.rule, refusal.fix)


def _identity(value: Any, **_: Any) -> Any:
    return value


_FORWARD_ONLY.def_impl(_identity)
_FORWARD_ONLY.def_abstract_eval(_identity)
mlir.register_lowering(_FORWARD_ONLY, lambda _, value, **_refusal: [value])
ad.deflinear2(_FORWARD_ONLY, _transposed)  # type: ignore[no-untyped-call]  # of jax
batching.defvectorized(_FORWARD_ONLY)  # type: ignore[no-untyped-call]  # of jax
