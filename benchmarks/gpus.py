"""What the page says of GPUs: the figures of each on which the benchmarks were run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from benchmarks.figures import read_figures
from benchmarks.tables import PARTS, markdown

__all__ = ["gpu_section"]

MEASURED: Final = ("end_to_end", "dispatch")
"""What a device takes part in; the rest is done before there is one."""

_BEGINNING: Final = """\
## GPUs

From the first op to the first result, and calls, on the GPUs on which they were measured.
`make bench BENCH_ARGS="end_to_end dispatch --json docs/performance/gpu-NAME.json"` measures jax's
default device, which is a GPU where there is one, and `python -m benchmarks report` enters such
files here.
"""

_NONE: Final = """\

There are no figures of a GPU yet: the benchmarks were run on none.
"""


def gpu_section(folder: Path) -> str:
    """The section, of the files gpu-*.json in the folder.

    Raises:
        FiguresError: a file holds no figures.
    """
    sections = [_BEGINNING]
    for file in sorted(folder.glob("gpu-*.json")):
        figures = read_figures(file)
        machine = figures["machine"]
        versions = ", ".join(f"{name} {version}" for name, version in figures["versions"].items())
        device = machine.get("device", "no GPU: the processor itself")
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
