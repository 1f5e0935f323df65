"""Whatever the tests of the language build, XLA's own parser reads its HLO text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import builder as xb
from lowering.jaxlib_api import hlo_conversion

# Texts are written and read for the sake of their form: what is there for its size (chains of
# 100,000 ops, constants of a gigabyte) says nothing more about that.
MOST_OPS = 2_000
MOST_COMPUTATIONS = 20
MOST_BUILT = 500
MOST_ELEMENTS = 10_000


def is_of_size_alone(computation: xb.XlaComputation) -> bool:
    every = (computation, *computation.called_computations())
    if len(every) > MOST_COMPUTATIONS:
        return True
    return sum(len(one.ops) for one in every) > MOST_OPS or any(
        op.opcode == "constant" and op.attributes["value"].size > MOST_ELEMENTS
        for one in every
        for op in one.ops
    )


@pytest.fixture(autouse=True)
def every_text_is_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    built: list[xb.XlaComputation] = []
    build = xb.XlaBuilder.build

    def remember(self: xb.XlaBuilder, *arguments: Any, **named: Any) -> xb.XlaComputation:
        computation = build(self, *arguments, **named)
        if self.parent is None and not self.purpose:
            built.append(computation)
        return computation

    monkeypatch.setattr(xb.XlaBuilder, "build", remember)
    yield
    for computation in built[:MOST_BUILT]:
        if not is_of_size_alone(computation):
            hlo_conversion.parsed_hlo_text(str(computation))
