"""Shape inference without a builder: its documentation, argument forms and errors."""

from __future__ import annotations

import doctest
import inspect
import random
from pathlib import Path
from typing import Any

import pytest
from tables import each_row

import builder as xb

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "shape_inference.md"
FUNCTIONS = {
    name: getattr(xb.shape_inference, name) for name, info in xb.OPERATIONS.items() if info.rule
}


def test_every_family_is_covered() -> None:
    assert len(FUNCTIONS) > 60


def test_examples_of_the_document() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    test = doctest.DocTestParser().get_doctest(
        "\n".join(line for line in text.splitlines() if not line.startswith("```")),
        {},
        "shape_inference.md",
        str(DOCUMENT),
        0,
    )
    report: list[str] = []
    runner = doctest.DocTestRunner()
    runner.run(test, out=report.append)
    assert not report, "".join(report)
    assert runner.tries > 12


WRONG: list[Any] = [
    *(None, "f32[2]", "x", 3, -1, 1.5, [], [1, 2], ["a"], [None], object(), 2**70, True, {}, b"q"),
    *([[1]], xb.f32, xb.f32[2], [xb.f32[2]], xb.TOKEN_SHAPE, xb.parse_shape("(f32[2])")),
    *(xb.ProgramShape([], xb.f32[()]), float("nan"), abs, range(3), ((0, 1), (2, 3))),
]


@each_row("name", FUNCTIONS)
def test_wrong_arguments_raise_errors_of_the_library(name: str) -> None:
    function = FUNCTIONS[name]
    parameters = inspect.signature(function).parameters.values()
    draw = random.Random(name)
    refused = 0
    for _ in range(300):
        arguments = {
            p.name: draw.choice(WRONG)
            for p in parameters
            if p.default is p.empty or draw.random() < 0.3
        }
        try:
            function(**arguments)
        except xb.XlaError:
            refused += 1
    assert refused or name in ("tuple", "optimization_barrier") or (not parameters)


@each_row(
    "plain, strict",
    [
        (
            lambda infer: infer.transpose("f32[2,3]", range(1, -1, -1)),
            lambda infer: infer.transpose(xb.f32[2, 3], (1, 0)),
        ),
        (
            lambda infer: infer.pad("f32[3]", "f32[]", [(1, 0, 2)]),
            lambda infer: infer.pad(
                xb.f32[3], xb.f32[()], xb.PaddingConfig([xb.PaddingConfigDimension(1, 0, 2)])
            ),
        ),
        (
            lambda infer: infer.convert_element_type(operand="s32[3]", new_element_type="f32"),
            lambda infer: infer.convert_element_type(xb.s32[3], xb.f32),
        ),
        (
            lambda infer: infer.custom_call(
                "t", ["f32[3]"], "f32[3]", output_operand_aliasing=[((), (0, ()))]
            ),
            lambda infer: infer.custom_call(
                "t",
                [xb.f32[3]],
                xb.f32[3],
                output_operand_aliasing=[xb.OutputOperandAliasing((), 0)],
            ),
        ),
        (
            lambda infer: infer.concatenate(("f32[3]", xb.f32[1]), dimension=0),
            lambda infer: infer.concatenate([xb.f32[3], xb.f32[1]], 0),
        ),
    ],
)
def test_argument_forms_are_equivalent(plain: Any, strict: Any) -> None:
    assert plain(xb.shape_inference) is strict(xb.shape_inference)


# The op has two forms, and the rule has the general one.
@each_row("name", [n for n, info in xb.OPERATIONS.items() if info.rule and n != "conditional"])
def test_the_parameters_are_those_of_the_op(name: str) -> None:
    parameters = inspect.signature(getattr(xb.shape_inference, name)).parameters
    ours = [p for p in inspect.signature(xb.OPERATIONS[name].function).parameters if p != "self"]
    assert list(parameters) == [p for p in ours if p in parameters]


def test_ops_that_share_a_rule() -> None:
    infer, x, kernel = xb.shape_inference, "f32[1,1,6]", "f32[1,1,3]"
    assert infer.conv(x, kernel, [2], "SAME", None, [2]) is xb.f32[1, 1, 3]
    assert infer.conv_general(x, kernel, [1], [(1, 0)], "bf0_oi0->b0f") is xb.f32[1, 5, 1]
    with pytest.raises(xb.ShapeInferenceError, match=r"^conv_general: window_strides must"):
        infer.conv_general(x, kernel, [0], "VALID", "bf0_oi0->b0f")


def test_messages_for_wrong_arguments() -> None:
    infer = xb.shape_inference
    for call, message in (
        (lambda: infer.rev(7, [0]), "rev: operand must be a shape, got 7"),
        (lambda: infer.rev("f32[", [0]), "rev: operand must be a shape, got 'f32['"),
        (lambda: infer.concatenate(7, 0), "concatenate: operands must be a sequence of"),
        (lambda: infer.call(7, []), "call: computation must be a ProgramShape, got 7"),
        (lambda: infer.exp(7), "exp: operand must be a shape, got 7"),
        (lambda: infer.compare("f32[]", "f32[]", "IS"), "compare: direction must be one of EQ, NE"),
        (
            lambda: infer.custom_call("t", (), "f32[2]", output_operand_aliasing=-1),
            "custom_call: output_operand_aliasing must be a sequence of OutputOperandAliasing, ",
        ),
    ):
        with pytest.raises(xb.XlaError) as caught:
            call()
        assert str(caught.value).startswith(message)


def test_defaults_are_those_of_the_ops() -> None:
    shape = xb.f32[4, 5]
    assert xb.shape_inference.slice_in_dim(shape, 0, 2) is xb.f32[2, 5]
    assert xb.shape_inference.slice_in_dim(shape, 0, 4, 2) is xb.f32[2, 5]
