"""The section on GPUs of the page: the figures of each GPU on which the benchmarks were run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from benchmarks.figures import read_figures
from benchmarks.tables import PARTS, markdown

__all__ = ["gpu_section"]

MEASURED: Final = ("end_to_end", "dispatch", "library")
"""The parts that use a device."""

_BEGINNING: Final = """\
## GPUs

The time from the first op to the first result, of calls, and of functions of the library, for each
GPU measured. `make bench BENCH_ARGS="end_to_end dispatch library --json FILE"`, where FILE is
docs/performance/gpu-NAME.json, measures jax's default device, which is a GPU if the machine has
one. `python -m benchmarks report` includes these files here.
"""

_NONE: Final = """\

The benchmarks have not been run on a GPU yet.
"""


def gpu_section(folder: Path) -> str:
    """Return the section, with the figures of the files gpu-*.json in a folder.

    Raises:
        FiguresError: a file has another format.
    """
    sections = [_BEGINNING]
    for file in sorted(folder.glob("gpu-*.json")):
        figures = read_figures(file)
        machine = figures["machine"]
        versions = ", ".join(f"{name} {version}" for name, version in figures["versions"].items())
        device = machine.get("device", "CPU")
        sections.append(
            f"\n### {device}\n\n{figures['date']}; {versions}; {machine['processor']}, "
            f"{machine['cores']} cores\n"
        )
        for part in MEASURED:
            for table in PARTS[part](figures) if part in figures else ():
                sections.append(f"\n{table.title}:\n\n{markdown(table)}")
    if len(sections) == 1:
        sections.append(_NONE)
    return "".join(sections)
