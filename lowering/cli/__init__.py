"""The command `xlabuilder`: inspect, convert, run and compare files of StableHLO and HLO.

Each command has a module. Commands import jax and NumPy when they run, so `--help` and usage errors
are fast.
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
