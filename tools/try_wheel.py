"""Install a wheel in fresh environments, and run what a new user runs first.

    python tools/try_wheel.py dist [PYTHON ...]
    python tools/try_wheel.py dist python3.11 "python3.12 jax<0.12"

In an environment of each Python (by default this one), with the newest versions that the wheel and
the requirements after the Python allow: the first example of README.md, whose outputs must be those
shown, `xlabuilder --help` and `python -m lowering.cli --help`. The modules must be those of the
wheel. The exit status is 1 if something fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent

EXAMPLE: Final = """
import sys

root, environment = sys.argv[1:]
sys.path.append(f"{root}/tools")
import builder, lowering, write_readme

assert builder.__file__.startswith(environment), builder.__file__
assert lowering.__file__.startswith(environment), lowering.__file__
with open(f"{root}/README.md", encoding="utf-8") as readme:
    _, _, rest = readme.read().partition("\\n## An example\\n")
section, _, _ = rest.partition("\\n## ")
assert "```python" in section, "README.md has no first example"
printed = write_readme.with_outputs(section)
assert printed == section, printed
"""
"""Runs the first example of the README, in an environment that has the wheel."""


def try_python(python: str, requirements: list[str], wheel: Path, folder: Path) -> str:
    """Install the wheel in an environment of a Python, and run the programs.

    Args:
        python: the interpreter.
        requirements: what is installed with the wheel, such as "jax<0.12".
        wheel: the wheel.
        folder: an empty folder.

    Returns:
        The output of `xlabuilder versions`.

    Raises:
        subprocess.CalledProcessError: a program failed; its output was printed.
    """
    # No setting of the caller may lead to other modules.
    variables = {name: text for name, text in os.environ.items() if name[:6] != "PYTHON"}

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            command, cwd=folder, env=variables, text=True, stdout=subprocess.PIPE, check=True
        )
        return done.stdout

    environment = folder / "environment"
    run(python, "-m", "venv", environment)
    installed = environment / "bin" / "python"
    pip = [installed, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*pip, wheel, *requirements)
    run(installed, "-c", EXAMPLE, ROOT, environment)
    command = environment / "bin" / "xlabuilder"
    helps = run(command, "--help"), run(installed, "-m", "lowering.cli", "--help")
    for text in helps:
        if not text.startswith("Usage: ") or "inspect" not in text:
            raise ValueError(f"the help has no list of commands:\n{text}")
    return run(command, "versions")


def main(dist: str, *pythons: str) -> int:
    """Try the wheel in a folder with each Python, and return the exit status."""
    (wheel,) = Path(dist).resolve().glob("*.whl")
    failed = []
    for line in pythons or (sys.executable,):
        python, *requirements = line.split()
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(f"{wheel.name} with {line}:")
                where = Path(folder).resolve()
                print(try_python(python, requirements, wheel, where), flush=True)
            except (subprocess.CalledProcessError, ValueError) as error:
                failed.append(line)
                print(error, flush=True)
    if failed:
        print(f"failed with {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
