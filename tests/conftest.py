"""What all tests share."""

import gc
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("xlabuilder", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("xlabuilder")

# Operations across devices need several. jax asks for the number when it is first used, so that it
# has to be said here, for all tests; those of one device run on the first as before.
_DEVICES = "--xla_force_host_platform_device_count"
if _DEVICES not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_DEVICES}=8".strip()

# Collecting 11,000 tests makes millions of objects that all stay. Python's garbage collector would
# walk through them again and again, which takes a fifth of the time of collecting.
gc.disable()

_LEFT_OUT = pytest.StashKey[str]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what is marked `gpu` where there is none, and says why."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    # A module beside these tests, whose folder pyproject.toml puts on the path.
    from on_device import missing

    reason = missing()
    if reason is None:
        return
    if config.getoption("markexpr") == "gpu":
        code = pytest.ExitCode.NO_TESTS_COLLECTED
        pytest.exit(f"tests marked gpu can't run here: {reason}", returncode=code)
    items[:] = [item for item in items if not item.get_closest_marker("gpu")]
    config.hook.pytest_deselected(items=marked)
    config.stash[_LEFT_OUT] = f"{len(marked)} tests marked gpu were left out: {reason}"


def pytest_sessionfinish(session: pytest.Session) -> None:
    # A process of pytest-xdist, whose own summary nobody sees.
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = session.config.stash.get(_LEFT_OUT, None)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    told = getattr(node, "workeroutput", {}).get("left_out")
    if told is not None:
        node.config.stash[_LEFT_OUT] = told


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    left_out = config.stash.get(_LEFT_OUT, None)
    if left_out is not None:
        terminalreporter.write_line(left_out)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture
def little_optimized(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA makes machine code of its HLO without LLVM's optimizations, in two thirds of the time.

    For tests that take nearly all of their time for compiling, and to which it is incidental how
    fast the machine code is: those that move elements, or compute with integers of which no
    type rounds a sum, so that one result alone is right, to the last bit; and those that compare a
    program with the one that jax has compiled in the same way. What is tested, the StableHLO and
    what XLA's own passes make of it, is the same at all levels: the optimized HLO has the same
    text. Tests that hold approximated or rounded functions against NumPy are not to use it, as
    LLVM may contract and vectorize their arithmetic; nor are all tests of a family.
    """
    from jaxlib import xla_client

    options = xla_client.CompileOptions

    def with_less() -> xla_client.CompileOptions:
        made = options()
        made.executable_build_options.debug_options.xla_backend_optimization_level = 0
        return made

    # jax takes it from the same place.
    monkeypatch.setattr(xla_client, "CompileOptions", with_less)
