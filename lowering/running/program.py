"""A program that XLA has compiled: what executables of all kinds know of it, and tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from builder.frozen import frozen
from builder.shape import ProgramShape
from lowering import jaxlib_api

__all__ = ["CompiledProgram", "ProgramInfo"]


@frozen
class ProgramInfo:
    """What has to be known of a program to execute it, besides what XLA made of it.

    Attributes:
        name: the computation's name.
        shape: parameters and result.
        num_replicas, num_partitions: for how many of each it was compiled.
        donated: the numbers of the arrays among the arguments that a call uses up, tuples opened.
        layouts: for each array among the arguments the runtime's layout that it is taken in; None
            where the program asks for none.
        callbacks: the Python functions that it calls.
    """

    name: str
    shape: ProgramShape
    num_replicas: int = 1
    num_partitions: int = 1
    donated: frozenset[int] = frozenset()
    layouts: Sequence[Any] | None = None
    callbacks: tuple[Callable[..., Any], ...] = ()


class CompiledProgram:
    """What executables of all kinds have in common. `lowering.compile` makes them.

    Attributes:
        name: the computation's name.
        program_shape: parameters and result.
        devices: the jax.Devices that it runs on: the partitions of replica 0, those of replica 1,
            and so on.
    """

    __slots__ = ("__weakref__", "_info", "_loaded", "devices", "name", "program_shape")

    def __init__(self, loaded: Any, info: ProgramInfo, devices: Sequence[jax.Device]) -> None:
        self.name = info.name
        self.program_shape = info.shape
        self.devices = tuple(devices)
        self._loaded = loaded
        self._info = info

    def hlo_text(self, *, large_constants: bool = True) -> str:
        """HLO text of what XLA made of the computation: fused, in layouts, scheduled.

        `lowering.from_hlo` reads it.

        Args:
            large_constants: whether constants of more than ten elements are written in full; if
                not, `{...}` stands for them, which is shorter, and can't be read again.

        Returns:
            Text; of the CPU's, GPU's or TPU's HLO, whichever was compiled for.

        Example:
            >>> import builder as xb, lowering
            >>> @xb.computation(xb.f32[16])
            ... def wave(x):
            ...     return xb.exp(xb.sin(x)) + x
            >>> text = lowering.compile(wave, "cpu").hlo_text()
            >>> text.startswith("HloModule wave"), " fusion(" in text
            (True, True)
        """
        return jaxlib_api.optimized_hlo_text(self._loaded, large_constants=large_constants)
