"""lowering.run_test: run files with programs and expected results, and compare."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
from jaxlib.mlir import ir

from builder.errors import XlaError
from builder.graph.calls import explained
from builder.types import primitive_type as pt
from lowering.errors import ModuleFileError
from lowering.jaxlib_api.mlir import read_module
from lowering.mlir.operations import call_target
from lowering.pjrt.devices import DeviceLike, device_argument
from lowering.running.compiling import compile
from lowering.running.worker_process import WorkerProcess
from lowering.stablehlo.module import StablehloModule, from_bytes, path_text


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """The outcome of one test function of a file.

    Attributes:
        file: the path of the file.
        name: the name of the module, or of the function if the module has none.
        passed: whether the program ran, and all results are as expected.
        message: the first difference, or the error; empty if the test passed.
        checks: the number of comparisons.
        seconds: the time to compile and run it.
    """

    __test__ = False  # for pytest

    file: str
    name: str
    passed: bool
    message: str
    checks: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.name}: {'passed' if self.passed else f'FAILED: {self.message}'}"


@explained
def run_test(path: str | os.PathLike[str], device: DeviceLike = None) -> list[TestOutcome]:
    """Run the tests in a file on a device.

    The file has the form that `write_test` writes, or that of the tests of StableHLO's interpreter
    or of IREE: modules of StableHLO text, separated by lines that begin with ``// -----``.
    Functions without arguments are tests: they compare values by operations of the `check` dialect,
    or by custom calls with the names of these operations. The checks are:

    - `expect_eq`: all elements are equal; NaNs are equal to NaNs;
    - `expect_almost_eq`: floating-point and complex numbers differ by at most 0.001, relative for
      numbers above 1;
    - `expect_close`: they differ by at most 3 units in the last place, or as many
      as the attribute `max_ulp_difference` states.

    Names that end in `_const` compare with an attribute instead of a value.

    Args:
        path: the file.
        device: a jax.Device, "cpu", "gpu:1", ...; None for jax's default device.

    Returns:
        The outcome of each function with checks, in order. A program that can't be read or compiled
        is a test that failed. A program that ends the process is not caught; the command
        `xlabuilder test` runs each file in another process.

    Raises:
        DeviceError: the device does not exist, or this process can't use it.
        ModuleFileError: the file can't be read as text, or checks nothing.
        OperandError: `path` is not a path.

    Example:
        >>> import lowering, pathlib, tempfile
        >>> text = '''func.func @sum() {
        ...   %0 = stablehlo.constant dense<[1.0, 2.5]> : tensor<2xf32>
        ...   %1 = stablehlo.add %0, %0 : tensor<2xf32>
        ...   check.expect_eq_const %1, dense<[2.0, 4.0]> : tensor<2xf32>
        ...   func.return
        ... }'''
        >>> path = pathlib.Path(tempfile.mkdtemp(), "sum.mlir")
        >>> _ = path.write_text(text)
        >>> for outcome in lowering.run_test(path, "cpu"):
        ...     print(outcome)
        sum: FAILED: expect_eq 1: 1 of 2 elements differ; at [1] got 5.0, expected 4.0
    """
    target = device_argument("run_test", device)
    name = path_text(path, "run_test")
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # a name that no file can have
        raise ModuleFileError(f"can't be read as text: {error}", path=name) from None
    outcomes = [_outcome(name, *test, target) for test in _tests(text)]
    if not outcomes:
        rule = "has no function without arguments that checks a value"
        fix = "write tests with lowering.write_test"
        raise ModuleFileError(rule, path=name, fix=fix)
    return outcomes


_DIVIDER: Final = re.compile(r"^// -----.*$", re.MULTILINE)

_VALUE: Final = r"%[\w$.#-]+"
_TYPE: Final = r"(?:tensor<[^<>]*(?:<[^<>]*>[^<>]*)*>)"
_LITERAL: Final = r'dense<(?:"[^"]*"|[^>"])*>'

# The forms of a check, in the order of `_as_custom_call`: with two values in StableHLO's form
# (`check.expect_eq %0, %1 : T`) and IREE's (`check.expect_eq(%0, %1) : T`); with a literal in
# StableHLO's form (`check.expect_eq_const %0, dense<1> : T`), IREE's, and MLIR's generic form.
_TWO_VALUES: Final = re.compile(
    rf"^[ \t]*check\.(expect_\w+)[ ]*\(?({_VALUE}),[ ]*({_VALUE})([^:\n]*):[ ]*({_TYPE}).*$",
    re.MULTILINE,
)
_GENERIC: Final = re.compile(
    rf'^[ \t]*"check\.(expect_\w+)"\(({_VALUE}),[ ]*({_VALUE})\)(.*?):[ ]*\(({_TYPE}),.*$',
    re.MULTILINE,
)
_WITH_LITERAL: Final = re.compile(
    rf"^[ \t]*check\.(expect_\w+)_const[ ]*\(?({_VALUE}),[ ]*({_LITERAL})[ ]*:[ ]*({_TYPE}).*$",
    re.MULTILINE,
)
_GENERIC_WITH_LITERAL: Final = re.compile(
    rf'^[ \t]*"check\.(expect_\w+)_const"\(({_VALUE})\).*?value = ({_LITERAL}) : ({_TYPE}).*$',
    re.MULTILINE,
)
_ULPS: Final = re.compile(r"max_ulp_difference\s*=\s*(\d+)")
_ENTRY: Final = re.compile(r"func\.func\s+(?:public\s+|private\s+)?@([\w$.-]+)\(\)")
_MODULE: Final = re.compile(r"^module\s+@([\w$.-]+)", re.MULTILINE)


def _tests(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name of each test function, and its module with the function as @main."""
    for part in _DIVIDER.split(text):
        module = _with_custom_calls(part)
        starts = [match.start() for match in re.finditer(r"func\.func\b", module)]
        for start, end in zip(starts, [*starts[1:], len(module)], strict=True):
            entry = _ENTRY.match(module, start)
            if entry is None or "@check." not in module[start:end]:
                continue
            named = _MODULE.search(module)
            name = named[1] if named is not None and entry[1] == "main" else entry[1]
            renamed = module[:start] + "func.func public @main()" + module[entry.end() :]
            if entry[1] != "main":
                other = re.compile(r"@main\b")
                renamed = other.sub("@other.main", module[:start]) + renamed[start:]
            yield name, renamed


def _with_custom_calls(text: str) -> str:
    """Return a module with custom calls of two values in the place of the check operations.

    jaxlib has no check dialect. Other operations of the text remain as they are.
    """
    numbers = iter(range(len(text)))

    def call(kind: str, left: str, right: str, ulps: str, type_: str) -> str:
        found = _ULPS.search(ulps)
        config = f', backend_config = "{found[1]}"' if found is not None else ""
        return (
            f"stablehlo.custom_call @check.{kind}({left}, {right}) "
            f"{{has_side_effect = true{config}}} : ({type_}, {type_}) -> ()"
        )

    def with_literal(match: re.Match[str]) -> str:
        kind, value, literal, type_ = match.groups()
        name = f"%check.{next(numbers)}"
        constant = f"{name} = stablehlo.constant {literal} : {type_}"
        return f"{constant}\n{call(kind, value, name, match[0], type_)}"

    def of_values(match: re.Match[str]) -> str:
        return call(*match.groups())

    text = re.sub(r"\butil\.unfoldable_constant\b", "stablehlo.constant", text)
    for pattern in (_WITH_LITERAL, _GENERIC_WITH_LITERAL):
        text = pattern.sub(with_literal, text)
    for pattern in (_TWO_VALUES, _GENERIC):
        text = pattern.sub(of_values, text)
    return text


def _outcome(file: str, name: str, text: str, target: jax.Device) -> TestOutcome:
    start = time.perf_counter()
    checks: list[tuple[str, int]] = []
    try:
        module = from_bytes(text.encode(), file)
        program, checks = _returning_values(module)
        values = [np.asarray(value) for value in jax.tree.leaves(compile(program, target)())]
    except XlaError as error:
        message = f"{type(error).__name__}: {error}".replace("\n", " ")
    else:
        pairs = zip(checks, values[::2], values[1::2], strict=True)
        found = [
            f"{kind} {number}: {difference}"
            for number, ((kind, ulps), got, want) in enumerate(pairs, 1)
            if (difference := difference_of(kind, got, want, ulps))
        ]
        message = found[0] if found else ""
    seconds = time.perf_counter() - start
    return TestOutcome(file, name, not message, message, len(checks), seconds)


def _returning_values(module: StablehloModule) -> tuple[StablehloModule, list[tuple[str, int]]]:
    """Return a module that returns the compared values in pairs, and the comparisons."""
    again = read_module(module.module.context, module.bytecode)
    operations = [view.operation for view in again.body.operations]
    main = next(o for o in operations if ir.StringAttr(o.attributes["sym_name"]).value == "main")
    block = main.regions[0].blocks[0]
    kinds, values, calls = [], [], []
    for view in block.operations:
        operation = view.operation
        target = call_target(operation)
        if target is None or not target.startswith("check."):
            continue
        config = operation.attributes.get("backend_config")
        ulps = ir.StringAttr(config).value if isinstance(config, ir.StringAttr) else ""
        kinds.append((target.removeprefix("check."), int(ulps or 3)))
        values += list(operation.operands)
        calls.append(operation)
    with again.context, ir.Location.unknown(again.context):
        returned = block.operations[len(block.operations) - 1].operation
        types = [value.type for value in values]
        with ir.InsertionPoint(returned):
            ir.Operation.create("func.return", operands=values)
        for operation in (*calls, returned):
            operation.erase()
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([], types))
        for name in ("res_attrs", "arg_attrs"):
            if name in main.attributes:
                del main.attributes[name]
    return from_bytes(str(again).encode(), module.name), kinds


ALLOWED: Final = 0.001
"""The difference that `expect_almost_eq` accepts, as in StableHLO."""


def difference_of(kind: str, got: Any, want: Any, ulps: int) -> str:
    """Return how two arrays differ by a check, or "" if they do not."""
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"got {got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    match kind:
        case "expect_eq":
            near = is_close(got, want)
        case "expect_almost_eq":
            near = is_close(got, want, tolerance=ALLOWED)
        case "expect_close":
            near = is_close(got, want, ulps=ulps)
        case _:
            return f"the check {kind} is unknown"
    if near.all():
        return ""
    index = tuple(map(int, np.argwhere(~near)[0]))
    count = int((~near).sum())
    return (
        f"{count} of {near.size} elements differ; at [{', '.join(map(str, index))}] "
        f"got {got[index]}, expected {want[index]}"
    )


def is_close(got: Any, want: Any, *, ulps: int = 0, tolerance: float = 0.0) -> Any:
    """Return whether each pair of elements agrees.

    Args:
        got, want: arrays of the same type and shape.
        ulps: the difference in units in the last place that is accepted, for each part of a complex
            number.
        tolerance: the difference that is accepted, relative for numbers above 1.
    """
    element_type = pt.from_dtype(got.dtype)
    if element_type.is_complex:
        with np.errstate(all="ignore"):
            # The tolerance is relative to the absolute value, not to each part.
            is_near = np.abs(got - want) <= tolerance * np.abs(want)
            is_near &= np.isfinite(got) & np.isfinite(want)
        parts = ((got.real, want.real), (got.imag, want.imag))
        close = [
            is_close(np.where(is_near, w, g), w, ulps=ulps, tolerance=tolerance) for g, w in parts
        ]
        return close[0] & close[1]
    if not element_type.is_floating:
        return got == want
    info = pt.float_info(element_type)
    a, b = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        # The step of the type at the larger number: eps times the power of two below it.
        exponent = np.frexp(np.maximum(np.abs(a), np.abs(b)))[1]
        steps = np.maximum(np.ldexp(float(info.eps), exponent - 1), float(info.smallest_subnormal))
        near = np.abs(a - b) <= np.maximum(ulps * steps, tolerance * np.maximum(np.abs(b), 1))
    return same | (near & np.isfinite(a) & np.isfinite(b))


def outcomes(paths: Iterable[str], device: str | None, seconds: float) -> Iterator[TestOutcome]:
    """Run files in a process, which is started anew if a program ended it or blocks.

    Args:
        paths: the files.
        device: see `run_test`.
        seconds: the time limit for a file.

    Returns:
        The outcomes of each file. A file that can't be read, that ends the process or that exceeds
        the time limit has one outcome, with the reason.
    """
    with WorkerProcess(answer, seconds) as worker:
        for path in paths:
            found, reason = worker.ask([path, device])
            if reason:
                yield TestOutcome(path, Path(path).stem, False, reason, 0, 0.0)
            else:
                yield from (TestOutcome(**fields) for fields in found)


def answer(request: list[Any]) -> list[dict[str, Any]]:
    """Run a file in the worker; return the outcomes."""
    path, device = request
    try:
        found = run_test(path, device)
    except XlaError as error:
        message = f"{type(error).__name__}: {error}".replace("\n", " ")
        found = [TestOutcome(path, Path(path).stem, False, message, 0, 0.0)]
    return [asdict(outcome) for outcome in found]
