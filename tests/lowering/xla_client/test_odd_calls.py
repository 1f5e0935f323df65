"""Calls of old functions with odd arguments, compared with the answers of jaxlib 0.6.0.

odd_calls.json has the answers: the shape of the result, the class of the error, or "abort" if the
process aborted. jaxlib 0.6.0 gave them for the same expressions, in the scope that `scope` returns,
where an error of an op is raised by `get_shape`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from tables import each_row

from lowering import xla_client as xc
from lowering.xla_client import ops

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("odd_calls.json").read_text())

SHAPES = {
    "x": "f32[2,3]",
    "y": "f32[2,3]",
    "v": "f32[3]",
    "m": "f32[3,3]",
    "s": "f32[]",
    "i": "s32[]",
    "n": "s32[4]",
    "p": "pred[2,3]",
    "q": "pred[]",
    "z": "c64[2,3]",
    "w": "f32[8]",
    "e": "f32[0,3]",
    "u": "u32[4]",
    "r": "u64[2]",
    "h": "bf16[2,3]",
    "im": "f32[1,2,5,5]",
    "ke": "f32[4,2,3,3]",
    "d": "f32[<=2,3]",
}


def computation(function: Any, *shapes: str) -> xc.XlaComputation:
    b = xc.XlaBuilder("computation")
    function(*[ops.Parameter(b, i, xc.Shape(shape)) for i, shape in enumerate(shapes)])
    return b.build()


COMPUTATIONS = {
    "add": computation(ops.Add, "f32[]", "f32[]"),
    "add_s32": computation(ops.Add, "s32[]", "s32[]"),
    "less": computation(ops.Lt, "f32[]", "f32[]"),
    "small": computation(lambda x: ops.Lt(x, x), "f32[]"),
    "neg": computation(ops.Neg, "f32[2,3]"),
    "scalar_neg": computation(ops.Neg, "f32[]"),
}


def scope() -> dict[str, Any]:
    b, other = xc.XlaBuilder("odd"), xc.XlaBuilder("other")
    parameters = {
        name: ops.Parameter(b, number, xc.Shape(text))
        for number, (name, text) in enumerate(SHAPES.items())
    }
    return {
        "xc": xc,
        "ops": ops,
        "np": np,
        "Shape": xc.Shape,
        "b": b,
        "other": other,
        "F32": xc.PrimitiveType.F32,
        "S32": xc.PrimitiveType.S32,
        **COMPUTATIONS,
        **parameters,
        "t": ops.Tuple(b, [parameters["x"], parameters["n"]]),
        "k": ops.CreateToken(b),
        "o": ops.Parameter(other, 0, xc.Shape("f32[2,3]")),
    }


def answers(call: str) -> set[str]:
    """Return the shape that a call returns, or the names of the classes of its error."""
    names = scope()
    try:
        result = eval(call, names)
        if isinstance(result, xc.XlaOp):
            return {str(names["b"].get_shape(result))}
        if isinstance(result, tuple) and isinstance(result[0], xc.XlaOp):
            return {" ".join(str(names["b"].get_shape(op)) for op in result)}
        return {str(result)}
    except xc.XlaRuntimeError as error:
        return {"RuntimeError", "XlaRuntimeError", *["TypeError"] * isinstance(error, TypeError)}


def test_answers_of_jaxlib() -> None:
    recorded = RECORDED["same"]
    found = {call: answers(call) for call in recorded}
    assert len(found) > 400
    assert {c: (found[c], answer) for c, answer in recorded.items() if answer not in found[c]} == {}


@each_row("reason", RECORDED["different"])
def test_other_answers(reason: str) -> None:
    for call, (of_jaxlib, here) in RECORDED["different"][reason].items():
        found = answers(call)
        assert here in found, call
        assert of_jaxlib not in found, call
