"""Import the tests of StableHLO's reference interpreter, lower them again, and run them.

    python tests/conformance/run_interpret.py DIRECTORY

The files are those of `stablehlo/tests/interpret` in openxla/stablehlo: modules divided by
`// -----`, whose functions compare computed values with literals. jaxlib has no `check` dialect, so
the checked values become results, which this program compares. A program that the file runs in
parallel is imported and run on as many CPU devices. The exit status is 1 if a file failed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent))

import sample_runner
from sample_runner import PASSED, Answer

DEVICES: Final = 8

_DIVIDER: Final = re.compile(r"^// -----.*$", re.MULTILINE)

# The two forms of a check: check.expect_eq_const %0, dense<..> : type, and
# "check.expect_eq_const"(%0) <{value = dense<..> : type}> : (type) -> ().
_CHECK: Final = re.compile(
    r"""^[ ]*(?:
        check\.expect_(\w+)_const[ ](%[\w\#]+),\s*(dense<[^>]*>)[ ]*:[ ]*(tensor<.*>)
        |"check\.expect_(\w+)_const"\((%[\w\#]+)\)[ ]<\{value[ ]=[ ](dense<[^>]*>)[ ]:[ ]*
        (tensor<.*>)\}>.*
    )[ ]*$\n""",
    re.VERBOSE | re.MULTILINE,
)
_RETURN: Final = re.compile(r"^\s*(?:func\.)?return\s*$", re.MULTILINE)
_PARALLEL: Final = re.compile(
    r'^\s*(%\w+)(?::\d+)? = "interpreter\.run_parallel"\((.*?)\)\s*\{\s*'
    r"programs\s*=\s*\[(.*)\]\s*\}\s*:\s*\((.*?)\)\s*->\s*\((.*?)\)\s*$",
    re.DOTALL | re.MULTILINE,
)

_ALLOWED: Final = {"eq": {}, "almost_eq": {"tolerance": 0.001}}
"""The tolerances of StableHLO's `check` dialect."""


def check(path: Path) -> Answer:
    """Run one file; return the outcome of its first module that does not pass."""
    import lowering

    for number, text in enumerate(_DIVIDER.split(path.read_text()), 1):
        try:
            _check_module(text)
        except (lowering.LoweringError, lowering.ModuleFileError) as error:
            refused = sample_runner.refusal(error, path, text)
            if refused is None:
                raise ValueError(f"module {number}: {type(error).__name__}: {error}") from error
            return refused, str(error)
        except AssertionError as error:
            raise ValueError(f"module {number}: {error}") from error
    return PASSED, ""


def _check_module(text: str) -> None:
    """Raise AssertionError unless the results of a module are as expected."""
    import numpy as np

    checks = [
        match.groups()[:4] if match[1] else match.groups()[4:] for match in _CHECK.finditer(text)
    ]
    parallel = _PARALLEL.search(text)
    if parallel is None:
        got = dict(zip(_names(checks), _run(_returning(text, _named_types(checks))), strict=True))
    else:
        got = _run_parallel(text, parallel)
    literals = "\n".join(
        f"%{number} = stablehlo.constant {literal} : {kind}"
        for number, (_, _, literal, kind) in enumerate(checks)
    )
    values = [(f"%{number}", kind) for number, (_, _, _, kind) in enumerate(checks)]
    names, kinds = zip(*values, strict=True) if values else ((), ())
    expected = _compiled(
        f"func.func @main() -> ({', '.join(kinds)}) {{\n{literals}\n"
        f"return {', '.join(names)} : {', '.join(kinds)}\n}}"
    )
    for (kind, name, literal, _), other in zip(checks, expected, strict=True):
        value = np.asarray(got[name])
        assert sample_runner.is_close(value, np.asarray(other), **_ALLOWED[kind]), (
            f"{name} is {value.tolist()}, expected {literal}"
        )


def _names(checks: Sequence[Sequence[str]]) -> list[str]:
    """Return the names of the compared values, without duplicates."""
    return list(dict.fromkeys(name for _, name, _, _ in checks))


def _named_types(checks: Sequence[Sequence[str]]) -> dict[str, str]:
    return {name: kind for _, name, _, kind in checks}


def _returning(text: str, values: dict[str, str]) -> str:
    """Return the module with the checking function as @main, which returns these values."""
    kinds = ", ".join(values.values())
    text = _CHECK.sub("", text)
    entry = re.findall(r"func\.func (?:public )?@(\w+)\(\)", text)[-1]
    head = re.compile(rf"func\.func (?:public )?@{entry}\(\)(?: -> [^{{]*)? \{{")
    text = head.sub(lambda _: f"func.func @main() -> ({kinds}) {{", text)
    returned = f"func.return {', '.join(values)} : {kinds}"
    return _RETURN.sub(lambda _: returned, text)


def _flat(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _run(text: str) -> list[Any]:
    """Run @main after importing it and lowering it again."""
    import lowering

    return _flat(lowering.compile(lowering.to_computation(lowering.load_bytes(text)))())


def _compiled(text: str) -> list[Any]:
    """Run @main without importing it."""
    import lowering

    return _flat(lowering.compile(lowering.load_bytes(text))())


def _run_parallel(text: str, parallel: re.Match[str]) -> dict[str, Any]:
    """Run programs in parallel; rows are replicas and columns are partitions."""
    import lowering

    name, operands, programs, kinds, _ = parallel.groups()
    rows = [re.findall(r"@(\w+)", row) for row in re.findall(r"\[([^][]*)\]", programs)]
    (program,) = {program for row in rows for program in row}
    inputs = [operand.strip() for operand in operands.split(",") if operand.strip()]
    types = re.findall(r"tensor<(?:[^<>]|<[^<>]*>)*>", kinds)
    start = text.index("func.func @main")
    constants = text[start : parallel.start()]
    returned = dict(zip(inputs, types, strict=True))
    values: dict[str, Any] = {}
    if inputs:
        prefix = f"{constants}\nreturn\n}}"
        values = dict(zip(inputs, _compiled(_returning(prefix, returned)), strict=True))
    function = text[text.index(f"func.func @{program}") : start]
    module = lowering.load_bytes(function.replace(f"@{program}", "@main", 1))
    count = len(rows) * len(rows[0])
    executable = lowering.compile(
        lowering.to_computation(module), num_replicas=len(rows), num_partitions=len(rows[0])
    )
    each = len(inputs) // count
    columns = [[values[inputs[n * each + i]] for n in range(count)] for i in range(each)]
    arguments = [[_array(value) for value in column] for column in columns]
    results = [result for device in executable(*arguments) for result in _flat(device)]
    return {f"{name}#{number}": one for number, one in enumerate(results)}


def _array(value: Any) -> Any:
    import numpy as np

    return np.asarray(value)


def main(arguments: Sequence[str] | None = None) -> int:
    devices = f"--xla_force_host_platform_device_count={DEVICES}"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {devices}".strip()
    description = (__doc__ or "").splitlines()[0]
    return sample_runner.command_line(__file__, description, check, arguments)


if __name__ == "__main__":
    sys.exit(main())
