"""Settings, hooks and fixtures of all tests."""

import gc
import itertools
import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# The time of an example depends on the machine more than on the code.
settings.register_profile("xlabuilder", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("xlabuilder")

# Collectives need several CPU devices; tests of one device run on the first. Without LLVM's
# optimizations XLA compiles faster; see the fixture `optimized`. jax reads the flags at its first
# use, so they are set here for all tests and the processes that they start.
for _flag, _value in (
    ("--xla_force_host_platform_device_count", 8),
    ("--xla_backend_optimization_level", 0),
):
    if _flag not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_flag}={_value}".strip()

# Collecting the tests creates millions of objects that stay alive. The garbage collector would
# traverse them repeatedly, so it is off until the collection is finished. They are hardly garbage.
gc.disable()

_DESELECTED = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also run the tests marked slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests, and record the reason."""
    reasons = [_without_slow_tests(config, items), _without_gpu_tests(config, items)]
    config.stash[_DESELECTED] = "\n".join(filter(None, reasons))


def _deselect(config: pytest.Config, items: list[pytest.Item], marker: str) -> int:
    """Deselect the tests with a marker, and return their number."""
    marked = [item for item in items if item.get_closest_marker(marker)]
    if marked:
        items[:] = [item for item in items if not item.get_closest_marker(marker)]
        config.hook.pytest_deselected(items=marked)
    return len(marked)


def _without_slow_tests(config: pytest.Config, items: list[pytest.Item]) -> str | None:
    """Deselect tests marked `slow`, unless the command line asks for them or names paths."""
    names_paths = config.args_source is pytest.Config.ArgsSource.ARGS
    if config.option.all or config.option.markexpr or names_paths:
        return None
    count = _deselect(config, items, "slow")
    return f"{count} tests marked slow were deselected: --all runs them" if count else None


def _without_gpu_tests(config: pytest.Config, items: list[pytest.Item]) -> str | None:
    """Deselect tests marked `gpu` on machines without a GPU."""
    if not any(item.get_closest_marker("gpu") for item in items):
        return None
    # Imported late, because it imports jax.
    from on_device import missing

    reason = missing()
    if reason is None:
        return None
    if config.getoption("markexpr") == "gpu":
        code = pytest.ExitCode.NO_TESTS_COLLECTED
        pytest.exit(f"tests marked gpu can't run here: {reason}", returncode=code)
    count = _deselect(config, items, "gpu")
    return f"{count} tests marked gpu were deselected: {reason}"


def pytest_sessionfinish(session: pytest.Session) -> None:
    # A worker of pytest-xdist; pytest prints only the summary of the main process.
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["deselected"] = session.config.stash.get(_DESELECTED, None)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    message = getattr(node, "workeroutput", {}).get("deselected")
    if message is not None:
        node.config.stash[_DESELECTED] = message


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    message = config.stash.get(_DESELECTED, None)
    if message:
        terminalreporter.write_line(message)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


_COLLECTION_EVERY = 50
"""The number of tests after which the objects that are alive are frozen."""

_finished = itertools.count(1)


def pytest_runtest_logfinish() -> None:
    if next(_finished) % _COLLECTION_EVERY == 0:
        _freeze()


def _freeze() -> None:
    """Free the garbage, and exclude what remains, such as jax's caches, from later collections.

    The caches grow for as long as the tests run. A collection in a process that has run thousands
    of tests would take seconds.
    """
    gc.collect()
    gc.freeze()


_ABOUT_COMPILING = (
    *("conformance", "defects", "gpu", "test_compilation_cache.py", "test_client.py"),
    # The older generator flushes small numbers to zero, and changes the bits of NaN.
    *("test_elementwise.py", "test_hlo_text.py", "test_indexing.py", "test_random.py"),
    *("test_scale_types.py", "test_chlo.py", "test_special_values.py", "test_whole_programs.py"),
    # The older generator does not have some of the defects that the rewrites of these ops avoid.
    *("test_collectives.py", "test_windows.py"),
    # Programs of hundreds of computations or results: the older generator takes seconds for them.
    *("test_limits.py", "test_lower.py"),
)
"""The folders and files of tests of the code that XLA generates, and of compile options."""

_SWEEPS = ("ops", "legalize", "portable", "type_grid", "xla_client")
"""The folders whose slow tests are also about that code: they run all element types."""


@pytest.fixture(autouse=True)
def simple_emitters(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile with XLA's older code generator, except in tests about compiling.

    It takes a third of the time. jaxlib 0.11 and later lack it, so `make test-newest` runs these
    tests with the code generator that programs of users have.
    """
    from jaxlib import version, xla_client

    users = _ABOUT_COMPILING
    if request.node.get_closest_marker("slow"):
        users += _SWEEPS
    folders = request.path.relative_to(request.config.rootpath).parts
    if version.__version_info__ >= (0, 11) or not {*folders}.isdisjoint(users):
        return
    base = xla_client.CompileOptions
    overrides = base.env_option_overrides

    class Options(base):  # type: ignore[misc]  # jaxlib has no types for it
        def __init__(self) -> None:
            super().__init__()
            self.env_option_overrides = []

        @property
        def env_option_overrides(self) -> Any:
            return overrides.__get__(self)

        @env_option_overrides.setter
        def env_option_overrides(self, value: Any) -> None:
            overrides.__set__(self, [("xla_cpu_use_fusion_emitters", False), *value])

    # jax uses this class as well.
    monkeypatch.setattr(xla_client, "CompileOptions", Options)


@pytest.fixture
def optimized(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile with LLVM's optimizations, as programs of users are, instead of without them.

    For tests that compare approximated or rounded functions with NumPy: LLVM may contract and
    vectorize their arithmetic. The StableHLO and the optimized HLO are the same at all levels.
    """
    from jaxlib import xla_client

    options = xla_client.CompileOptions

    def with_optimizations() -> xla_client.CompileOptions:
        result = options()
        result.executable_build_options.debug_options.xla_backend_optimization_level = 3
        return result

    # jax uses this class as well.
    monkeypatch.setattr(xla_client, "CompileOptions", with_optimizations)


@pytest.fixture
def read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read files in this process instead of a helper process, which takes 0.2 seconds to start.

    For tests of what a file means, whose files do not crash MLIR and XLA.
    """
    from lowering.importer import hlo, refinement
    from lowering.jaxlib_api.mlir import UnreadableModuleError
    from lowering.reading import module_reader
    from lowering.reading.helper_process import HelperError

    def call(task: Callable[[bytes], bytes], source: bytes, *, crash_reason: str) -> bytes:
        try:
            return task(source)
        except UnreadableModuleError as error:
            raise HelperError(error.reason, error.line, error.column, error.detail) from None

    for module in (hlo, module_reader, refinement):
        monkeypatch.setattr(module, "in_helper", call)
