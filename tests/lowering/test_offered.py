"""`import lowering` loads what it offers when something of it is asked for."""

from __future__ import annotations

import pytest
from processes import run_python

import lowering
from lowering import everything


def test_all_that_is_offered_is_there():
    modules = type(lowering)
    there = [n for n, v in vars(everything).items() if not isinstance(v, modules)]
    assert sorted(lowering.__all__) == sorted(n for n in there if not n.startswith("_"))
    assert lowering.__all__ == sorted(lowering.__all__)
    for name in lowering.__all__:
        assert getattr(lowering, name) is getattr(everything, name)
    assert set(lowering.__all__) <= set(dir(lowering))


def test_what_is_not_offered():
    with pytest.raises(AttributeError, match="module 'lowering' has no attribute 'lowre'"):
        lowering.lowre  # noqa: B018  (asking is the test)
    assert not hasattr(lowering, "__wrapped__")


def test_it_is_loaded_when_it_is_asked_for():
    program = (
        "import sys, lowering\n"
        "assert 'jaxlib' not in sys.modules\n"
        # A module of it, and no name of `__all__`: this alone is loaded.
        "assert lowering.jaxlib_api.minimum_version()\n"
        "assert 'jaxlib' in sys.modules and 'jax' not in sys.modules\n"
        "assert 'lowering.everything' not in sys.modules\n"
    )
    assert run_python("-c", program).stderr == ""
