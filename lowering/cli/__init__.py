"""The command `xlabuilder`: files of StableHLO and HLO, looked at, converted, run and compared.

One module a command. What they need of jax they import when they are carried out: `--help` and a
wrong word are answered at once.
"""

from lowering.cli import (
    compare as compare,
    convert as convert,
    devices as devices,
    diff as diff,
    inspect as inspect,
    ops as ops,
    run as run,
)
from lowering.cli.command import main

__all__ = ["main"]
