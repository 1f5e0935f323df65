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

    def noted_make(self: xb.XlaBuilder, *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **named)
        builders.append(self)

    def noted_build(self: xb.XlaBuilder, *arguments: Any, **named: Any) -> xb.XlaComputation:
        found = build(self, *arguments, **named)
        built[id(self)] = found
        return found

    document = xb.OPERATIONS[name].function.__doc__ or ""
    test = doctest.DocTestParser().get_doctest(document, {}, name, None, None)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    with (
        mock.patch.object(xb.XlaBuilder, "__init__", noted_make),
        mock.patch.object(xb.XlaBuilder, "build", noted_build),
    ):
        runner.run(test, out=lambda _: None)
    found: list[xb.XlaComputation] = []
    for one in builders:
        whole = built.get(id(one))
        if whole is None and one.parent is None and not one.built and one.ops:
            whole = one.build()
        if whole is not None:
            found.append(whole)
    return found
