"""The command `xlabuilder`: inspect, convert, run and compare files of StableHLO and HLO.

Commands of one purpose have a module. They import NumPy, and jax if they need it, when they run, so
`--help` and usage errors are fast.
"""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lowering.cli.command import main as main
else:
    try:
        from lowering.cli import (  # noqa: F401  (each module registers its commands)
            checking,
            convert,
            inspect,
            lists,
            run,
        )
        from lowering.cli.command import main
    except ModuleNotFoundError as error:
        from builder.support.imports import missing_requirement

        message = str(missing_requirement(error, "xlabuilder"))

        def main():
            """Print that click is not installed, and exit."""
            sys.exit(message)


__all__ = ["main"]
