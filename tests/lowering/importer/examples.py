"""The computations that the examples of the public ops record."""

from __future__ import annotations

import doctest
from typing import Any
from unittest import mock

import builder as xb

__all__ = ["recorded_by_example"]


def recorded_by_example(name: str) -> list[xb.XlaComputation]:
    """Return the computations of the example in an op's docstring, built or not."""
    builders: list[xb.XlaBuilder] = []
    built: dict[int, xb.XlaComputation] = {}
    make, build = xb.XlaBuilder.__init__, xb.XlaBuilder.build

    def recording_init(self: xb.XlaBuilder, *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **named)
        builders.append(self)

    def recording_build(self: xb.XlaBuilder, *arguments: Any, **named: Any) -> xb.XlaComputation:
        results = build(self, *arguments, **named)
        built[id(self)] = results
        return results

    document = xb.OPERATIONS[name].function.__doc__ or ""
    test = doctest.DocTestParser().get_doctest(document, {}, name, None, None)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    with (
        mock.patch.object(xb.XlaBuilder, "__init__", recording_init),
        mock.patch.object(xb.XlaBuilder, "build", recording_build),
    ):
        runner.run(test, out=lambda _: None)
    results: list[xb.XlaComputation] = []
    for one in builders:
        whole = built.get(id(one))
        if whole is None and one._parent is None and not one.built and one.ops:
            whole = one.build()
        if whole is not None:
            results.append(whole)
    return results
