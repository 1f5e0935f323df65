"""Shape inference: functions from shapes and attributes to the shape of an op's result.

The functions need no builder, record nothing and have no state:

    >>> import builder as xb
    >>> infer = xb.shape_inference
    >>> infer.transpose("f32[2,3,4]", [2, 0, 1])
    f32[4,2,3]

There is one function for each op. The arguments are those of the op, with shapes in place of ops
and a ProgramShape in place of a computation. A shape may be passed as text. Other arguments may
have any form that the op accepts. For invalid arguments, a function raises the same
ShapeInferenceError as the op. `same_shape` tests whether a value may be passed where another shape
is expected.

A comment above each check cites the rule that it implements; docs/shape_inference.md explains the
form of the citations.
"""

from __future__ import annotations

from typing import Any

from builder.checking import Check as Check, same_shape as _same_shape
from builder.graph.registry import OPERATIONS
from builder.ops.rule_arguments import PublicFunction, public

same_shape = public(_same_shape)


def __getattr__(name: str) -> PublicFunction[..., Any]:
    info = OPERATIONS.get(name)
    if info is None or info.rule is None:
        raise AttributeError(f"module 'builder.shape_inference' has no attribute {name!r}")
    function = globals()[name] = public(info.rule, name, info.function)
    function.__doc__ = f"Return the shape of the result of `{name}`, from shapes and attributes."
    return function


def __dir__() -> list[str]:
    return sorted(["same_shape", *(n for n, info in OPERATIONS.items() if info.rule is not None)])
