"""Write bug reports to XLA from the reproducers in tests/defects.

`tests/defects/reports.toml` has the text of each report: what XLA does, and the rule that it
breaks. A report is written if at least one of its reproducers fails when jaxlib alone runs it.
"""

from __future__ import annotations

import ast
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any, Final, NamedTuple

import jax
import jaxlib
import numpy as np

from tests.defects.reproducer import Reproducer, read

REPORTS: Final = Path(__file__).resolve().parent.parent / "tests" / "defects" / "reports.toml"

SECONDS: Final = 30
"""The time after which a program counts as one that XLA does not finish compiling."""


class Report(NamedTuple):
    """The text of a report, as in reports.toml.

    Attributes:
        name: the name of the file, without its extension.
        title: the title of the issue: the operation, the type, and what is wrong.
        description: what XLA does, and when.
        expected: the rule that requires the expected results, with its source.
        reproducers: their names; the script of the first one that fails is shown in full.
        related: issues of XLA or StableHLO about similar defects, as "owner/repository#number".
    """

    name: str
    title: str
    description: str
    expected: str
    reproducers: list[str]
    related: list[str]


class Outcome(NamedTuple):
    """What a script did.

    Attributes:
        kind: "right", "wrong", "error", "aborts" or "hangs", as in the reproducers.
        text: the printed results, the first line of the error, or the signal and XLA's message.
    """

    kind: str
    text: str


def read_reports() -> tuple[list[Report], dict[str, str]]:
    """Return the reports, and the reason for each reproducer that is not to be reported."""
    content: dict[str, Any] = tomllib.loads(REPORTS.read_text(encoding="utf-8"))
    reports = [
        Report(
            name=name,
            title=fields["title"],
            description=_one_line(fields["description"]),
            expected=_one_line(fields["expected"]),
            reproducers=fields["reproducers"],
            related=fields.get("related", []),
        )
        for name, fields in content["report"].items()
    ]
    reasons = {
        reproducer: _one_line(fields["reason"])
        for fields in content["unreported"].values()
        for reproducer in fields["reproducers"]
    }
    return reports, reasons


def _one_line(text: str) -> str:
    return " ".join(text.split())


class _Qualified(ast.NodeTransformer):
    """Writes names of NumPy and ml_dtypes as a script does that imports the modules."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id == "md":
            return ast.Name("ml_dtypes")
        if node.id in np.__all__:
            return ast.Attribute(ast.Name("np"), node.id)
        return node


def _expression(text: str) -> str:
    return ast.unparse(_Qualified().visit(ast.parse(text, mode="eval")))


def script(reproducer: Reproducer) -> str:
    """Return a Python program that runs a reproducer with jax, NumPy and ml_dtypes alone.

    The program fails with an AssertionError if a result differs from the expected one in its
    element type, its shape or a bit.
    """
    replicas, partitions = reproducer.replicas, reproducer.partitions
    count = replicas * partitions
    has_long_elements = any(argument.itemsize >= 8 for argument in reproducer.arguments)
    lines = [
        "import jax",
        *_imports(reproducer),
        "import numpy as np",
        "from jax.extend.backend import get_backend, get_compile_options",
        *(["from jaxlib.xla_client import GSPMDSharding"] if partitions > 1 else []),
        "",
        *(['jax.config.update("jax_enable_x64", True)'] if has_long_elements else []),
        *([f'jax.config.update("jax_num_cpu_devices", {count})'] if count > 1 else []),
        f'module = """\n{reproducer.module}"""',
        *_values(reproducer),
        "",
        f'devices = get_backend("cpu").local_devices()[:{count}]',
        f"options = get_compile_options({replicas}, {partitions})",
    ]
    if partitions == 1 and "channel_handle" in reproducer.module:
        lines.append("options.executable_build_options.use_spmd_partitioning = False")
    lines.append("executable = devices[0].client.compile_and_load(module, devices, options)")
    if partitions > 1:
        lines += [
            "places = [GSPMDSharding(devices, s) for s in executable.get_parameter_shardings()]",
            "placed = [jax.device_put(*pair) for pair in zip(arguments, places)]",
        ]
    elif count > 1:
        lines += [
            'mesh = jax.sharding.Mesh(np.array(devices), "replica")',
            "replicated = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())",
            "placed = [jax.device_put(argument, replicated) for argument in arguments]",
        ]
    else:
        lines.append("placed = [jax.device_put(argument, devices[0]) for argument in arguments]")
    lines.append(
        "results = executable.execute_sharded(placed).disassemble_into_single_device_arrays()"
    )
    if partitions > 1:
        lines += [
            "shardings = [GSPMDSharding(devices, s) for s in executable.get_output_shardings()]",
            "for parts, sharding, want in zip(results, shardings, expected):",
            "    got = jax.make_array_from_single_device_arrays(want.shape, sharding, parts)",
            "    got = np.asarray(got)",
        ]
    else:
        lines.append("for (got, *_), want in zip(results, expected):")
        lines.append("    got = np.asarray(got)")
    if any(want.size > _MAX_SHOWN for want in reproducer.want):
        lines += [
            "    elements = [(i, got[i], want[i]) for i in np.ndindex(want.shape)]",
            "    different = [e for e in elements if e[1].tobytes() != e[2].tobytes()]",
            '    print(len(different), "elements differ; index, got, expected:", *different[:1])',
        ]
    else:
        lines += [
            '    print("got     ", got.dtype, got.tolist())',
            '    print("expected", want.dtype, want.tolist())',
        ]
    lines += [
        "    assert got.dtype == want.dtype and got.shape == want.shape",
        "    assert got.tobytes() == want.tobytes()",
    ]
    return "\n".join(lines) + "\n"


_MAX_SHOWN: Final = 64
"""The number of elements up to which scripts print all elements."""


def _values(reproducer: Reproducer) -> list[str]:
    """The lines that set the arguments and the expected results."""
    return [
        f"arguments = {_expression(reproducer.arguments_text)}",
        f"expected = {_expression(reproducer.want_text)}",
    ]


def _imports(reproducer: Reproducer) -> list[str]:
    """The line that imports ml_dtypes, if the arguments or the results need it."""
    return ["import ml_dtypes"] if any("ml_dtypes." in v for v in _values(reproducer)) else []


def run_script(text: str) -> Outcome:
    """Run a script in a new process of this interpreter, without the project's modules."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "script.py"
        file.write_text(text, encoding="utf-8")
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("XLA_", "JAX_", "PYTHON"))
        }
        try:
            done = subprocess.run(
                [sys.executable, "-I", file],
                capture_output=True,
                cwd=folder,
                env=environment | {"JAX_PLATFORMS": "cpu"},
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Outcome("hangs", f"The program does not end within {SECONDS} seconds.")
    return _outcome(done.returncode, done.stdout, done.stderr)


_LOG_PREFIX: Final = re.compile(r"[EF]\d{4} [\d:.]+ +\d+ ")
"""Begins a line of XLA's log about an error: severity, date, time and thread."""

_MAX_ERROR: Final = 500
"""The length at which an error message is cut: XLA adds the instructions of a module to some."""


def _outcome(status: int, printed: str, log: str) -> Outcome:
    lines = log.splitlines()
    if status < 0:
        name = signal.Signals(-status).name
        messages = [_LOG_PREFIX.sub("", line) for line in lines if _LOG_PREFIX.match(line)]
        return Outcome("aborts", "\n".join([f"{name} ends the process.", *messages[:1]]).strip())
    if status == 0:
        return Outcome("right", printed.strip())
    if lines and lines[-1].startswith("AssertionError"):
        return Outcome("wrong", printed.strip())
    raised = [line for line in lines if re.match(r"[\w.]*Error: ", line)]
    message = raised[0] if raised else log.strip()
    return Outcome(
        "error", message if len(message) <= _MAX_ERROR else message[:_MAX_ERROR] + " ..."
    )


def versions() -> str:
    """Return the versions of this interpreter and of the packages that a script uses."""
    return "\n".join(
        [
            f"Python {platform.python_version()}",
            *(f"{module.__name__} {module.__version__}" for module in (jax, jaxlib, np)),
            f"{platform.system()} {platform.machine()}, CPU",
        ]
    )


def report_text(report: Report, outcomes: dict[str, Outcome]) -> str | None:
    """Return a report in Markdown; None if XLA passes all of its reproducers.

    Args:
        report: the report.
        outcomes: the result of `run_script`, for each reproducer of the report.
    """
    failing = [name for name in report.reproducers if outcomes[name].kind != "right"]
    if not failing:
        return None
    first = read(failing[0])
    parts = [
        f"# {report.title}",
        report.description,
        "Run this with `python script.py`:",
        _fenced("python", script(first)),
        "## Expected",
        report.expected,
        "## Got",
        _fenced("", outcomes[first.name].text),
    ]
    if len(failing) > 1:
        parts.append("## Further programs with this defect")
        parts.append("Replace `module`, `arguments` and `expected` in the script.")
    for other in map(read, failing[1:]):
        lines = [] if _imports(first) else _imports(other)
        parts += [
            f"{other.defect[0].upper()}{other.defect[1:]}",
            _fenced("mlir", other.module),
            _fenced("python", "\n".join([*lines, *_values(other)])),
            _fenced("", outcomes[other.name].text),
        ]
    if report.related:
        parts += ["## Related", ", ".join(report.related)]
    parts += ["## Versions", _fenced("", versions())]
    return "\n\n".join(parts) + "\n"


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```"


def write_reports(folder: Path) -> None:
    """Run the reproducers with this interpreter's jaxlib, and write a file for each report.

    The names of the files, and of the reproducers without a report, are printed with their results.
    """
    folder.mkdir(parents=True, exist_ok=True)
    reports, reasons = read_reports()
    for report in reports:
        outcomes = {name: run_script(script(read(name))) for name in report.reproducers}
        text = report_text(report, outcomes)
        kinds = ", ".join(f"{name} {outcome.kind}" for name, outcome in outcomes.items())
        print(f"{report.name + '.md' if text else 'no report'}: {kinds}", flush=True)
        file = folder / f"{report.name}.md"
        if text:
            file.write_text(text, encoding="utf-8")
        else:
            file.unlink(missing_ok=True)  # of an older jaxlib
    for name, reason in reasons.items():
        print(f"not reported: {name}: {reason}")
