"""Import StableHLO's test data, lower it again, run it, and compare with the expected results.

    python tests/conformance/run_testdata.py DIRECTORY

The files are those of `stablehlo/testdata` in openxla/stablehlo: a function @main, which computes
from @inputs, and a function @expected, which returns the expected results. The exit status is 1 if
a file failed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent))

import run_interpret
import sample_runner
from sample_runner import FAILED, PASSED, Answer

_CHECK: Final = re.compile(
    r"^\s*stablehlo\.custom_call @check\.(expect_\w*)\((%[\w#]+), (%[\w#]+)\).*$\n?", re.MULTILINE
)
"""A comparison in the files, which is not an operation of XLA: its kind and two values."""

_RETURN: Final = re.compile(r"^\s*(?:func\.)?return (%.*?) :", re.MULTILINE)

SIZE: Final = 2
"""The argument for a dynamic size."""

_ALLOWED: Final = {
    "expect_eq": {},
    "expect_close": {"ulps": 3},
    "expect_almost_eq": {"tolerance": 0.001},
}
"""The tolerances of StableHLO's `check` dialect."""


def check(path: Path) -> Answer:
    """Run one file and return its outcome."""
    import numpy as np

    import lowering

    text = path.read_text()
    if "// -----" in text:
        return run_interpret.check(path)  # one file has the form of the interpreter's tests
    checks = [match.groups() for match in _CHECK.finditer(text)]
    try:
        module = lowering.load_bytes(_CHECK.sub("", text))
        if "?" in str(module.program_shape):
            return _of_open_sizes(module)
        computation = lowering.to_computation(module)
    except (lowering.LoweringError, lowering.ModuleFileError) as error:
        refused = sample_runner.refusal(error, path, text)
        if refused is None:
            raise
        return refused, str(error)
    got = _results(lowering.compile(computation)())
    expected = _results(lowering.compile(_expected(module))())
    if not checks:
        return FAILED, "it compares nothing"
    # The first function is @main.
    returned = _RETURN.search(text)
    names = returned[1].split(", ") if returned is not None else []
    for kind, value, reference in checks:
        if value not in names:
            return FAILED, f"it compares {value}, which @main does not return"
        number, of_expected = names.index(value), int(reference.partition("#")[2] or 0)
        result, other = np.asarray(got[number]), np.asarray(expected[of_expected])
        if not sample_runner.is_close(result, other, **_ALLOWED[kind]):
            message = f"result {number} is {result}, expected {other}"
            return FAILED, message.replace("\n", " ")[:300]
    return PASSED, ""


def _of_open_sizes(module: Any) -> Answer:
    """Run a module with unbounded argument sizes, which has no expected results.

    It can't be compiled without sizes. With sizes its results must be those without the import.
    """
    import numpy as np

    import lowering
    from lowering.importer import refinement

    shapes = [str(shape).replace("?", str(SIZE)) for shape in module.program_shape.parameters]
    computation = lowering.to_computation(module, argument_shapes=shapes)
    fixed = refinement.with_argument_shapes(module, shapes, "to_computation")
    random = np.random.default_rng(0)
    arguments = [
        # The scalar argument of these programs is the dynamic size.
        np.full(shape.dimensions, SIZE, shape.element_type.dtype)
        if not shape.rank
        else random.normal(size=shape.dimensions).astype(shape.element_type.dtype)
        for shape in computation.program_shape.parameters
    ]
    got = _results(lowering.compile(computation)(*arguments))
    expected = _results(lowering.compile(fixed)(*arguments))
    if [np.asarray(one).tobytes() for one in got] != [np.asarray(o).tobytes() for o in expected]:
        return FAILED, f"for arguments of {', '.join(shapes)}, it gives {got}, not {expected}"
    try:
        called = _results(lowering.compile(lowering.to_computation(module))(*arguments))
    except (lowering.LoweringError, lowering.CompileError) as error:
        return "dynamic", str(error)
    if [np.asarray(one).tobytes() for one in called] != [np.asarray(o).tobytes() for o in got]:
        return FAILED, "a program that is compiled for the sizes of the call gives other results"
    return "dynamic", "compiled for the sizes of the call"


def _results(value: object) -> Sequence[object]:
    return value if isinstance(value, (tuple, list)) else [value]


def _expected(module: object) -> object:
    """Return a module whose @main is the file's function @expected, without importing it."""
    import lowering

    assert isinstance(module, lowering.StablehloModule)
    for view in module.module.body.operations:
        text = str(view.operation)
        if re.match(r"func\.func (\w+ )?@expected\(", text):
            again = re.sub(r"^func\.func (\w+ )?@expected", "func.func @main", text)
            return lowering.load_bytes(again)
    raise ValueError("the file has no function @expected")


def main(arguments: Sequence[str] | None = None) -> int:
    description = (__doc__ or "").splitlines()[0]
    return sample_runner.command_line(__file__, description, check, arguments)


if __name__ == "__main__":
    sys.exit(main())
