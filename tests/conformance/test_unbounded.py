"""Calls with unbounded sizes that the C++ builder accepts: their lowering and their HLO text."""

from __future__ import annotations

import numpy as np
import pytest
from scripts import ROOT, load_script

import builder as xb
import lowering
from builder.types.shape import has_unbounded_sizes
from lowering import LoweringError
from lowering.jaxlib_api import hlo_conversion

runner = load_script("tests/conformance/run_cases.py")

REFUSED = {
    "AllReduce.3061e8f3dc": "StableHLO can't express them",  # a bound in a region's type
    "Call.5a15b5b2a6": "both sizes must be bounded, or both static",
    "Conditional.1453e9ce6b": "both sizes must be bounded, or both static",
    "Conditional.2c9026ba82": "both sizes must be bounded, or both static",
    "Conditional.6aceb9e176": "both sizes must be bounded, or both static",
    "Conditional.869c092095": "both sizes must be bounded, or both static",
    "While.e6045a7f57": "both sizes must be bounded, or both static",
    "CustomCall.3059a51689": "the target name must not be empty",
    "CustomCall.42eac2c163": "the target name must not be empty",
    "CustomCall.50c448eadb": "the target name must not be empty",
    "CustomCall.da7eb90fb8": "the target name must not be empty",
    "CustomCallWithComputation.6ccc183a69": "the target name must not be empty",
    "CustomCallWithLayout.52c8dd1813": "the target name must not be empty",
    "CustomCallWithLayout.9cd620a434": "the target name must not be empty",
    "OutfeedWithToken.728b79d5b9": "transferred data must have static sizes",
    "OutfeedWithToken.76e8d5066a": "transferred data must have static sizes",
    "ReduceScatter.049a993493": "StableHLO can't express them",
    "ReduceScatter.c6b591308f": "StableHLO can't express them",
}
"""The cases that StableHLO can't express, with the reason."""


def recorded() -> list[tuple[str, xb.XlaComputation]]:
    """Record the valid cases with unbounded sizes."""
    found = []
    for case in runner.read(ROOT / "tests" / "conformance" / "xlabuilder_cases.jsonl.gz"):
        adapter = runner.ADAPTERS.get(case["op"])
        is_counted = runner.why_uncounted(case) is None and "result" in case
        if not is_counted or "unbounded" not in case.get("tags", ()) or not adapter.is_offered:
            continue
        b = xb.XlaBuilder("case")
        result = adapter.call(b, [b.parameter(text) for text in case["operands"]], case["attrs"])
        found.append((case["id"], b.build(result)))
    return found


def test_unbounded_cases_are_lowered() -> None:
    refused = {}
    programs = recorded()
    for name, program in programs:
        try:
            assert lowering.lower(program).module.operation.verify()
        except LoweringError as error:
            refused[name] = str(error)
    assert len(programs) - len(refused) > 490
    assert set(refused) == set(REFUSED)
    assert all(reason in refused[name] for name, reason in REFUSED.items())


def test_xla_parses_the_text_of_unbounded_cases() -> None:
    for name, program in recorded():
        if any(map(has_unbounded_sizes, program.program_shape.parameters)):
            assert hlo_conversion.hlo_proto(str(program)), name


@pytest.mark.parametrize("argument", ["f32[0,4]", "f32[3,4]"])
def test_an_imported_text_is_compiled_for_sizes(argument: str) -> None:
    b = xb.XlaBuilder("text")
    x = b.parameter("f32[?,4]")
    program = b.build(xb.slice_in_dim(x * 2.0, 1, 3, dimno=1))
    again = lowering.from_hlo(str(program))
    shape = xb.parse_shape(argument)
    values = np.arange(shape.element_count, dtype=np.float32).reshape(shape.dimensions)
    result = lowering.compile(again, argument_shapes=[shape])(values)
    assert np.asarray(result).tolist() == (values * 2)[:, 1:3].tolist()
