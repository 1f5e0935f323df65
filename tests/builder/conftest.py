"""XLA's parser reads the HLO text of every computation that the tests of `builder` build."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import builder as xb
from lowering.jaxlib_api import hlo_conversion

# Larger computations are not parsed: tests of scale (chains of 100,000 ops, constants of a
# gigabyte) have no other syntax.
MAX_OPS = 2_000
MAX_COMPUTATIONS = 20
MAX_BUILT = 500
MAX_ELEMENTS = 10_000


def is_large(computation: xb.XlaComputation) -> bool:
    computations = (computation, *computation.called_computations())
    if len(computations) > MAX_COMPUTATIONS:
        return True
    ops = [op for each in computations for op in each.ops]
    return len(ops) > MAX_OPS or any(
        op.opcode == "constant" and op.attributes["value"].size > MAX_ELEMENTS for op in ops
    )


@pytest.fixture(autouse=True)
def parse_every_text(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    built: list[xb.XlaComputation] = []
    build = xb.XlaBuilder.build

    def build_and_append(self: xb.XlaBuilder, *arguments: Any, **named: Any) -> xb.XlaComputation:
        computation = build(self, *arguments, **named)
        if self._parent is None and not self._purpose:
            built.append(computation)
        return computation

    monkeypatch.setattr(xb.XlaBuilder, "build", build_and_append)
    yield
    for computation in built[:MAX_BUILT]:
        if not is_large(computation):
            hlo_conversion.parsed_hlo_text(str(computation))
