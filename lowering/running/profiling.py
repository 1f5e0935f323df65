"""How long the parts of one call take, and what a program takes on a device."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

__all__ = ["Memory", "Profile", "profiled"]


@dataclass(frozen=True, slots=True)
class Memory:
    """The bytes that a program takes on each device that it runs on.

    Attributes:
        arguments: of its arguments.
        results: of its results.
        aliased: of the results that lie in the memory of arguments, which count there too.
        temporary: of what it needs besides while it runs.
        code: of the program itself, with the constants in it, as far as XLA counts them.
    """

    arguments: int
    results: int
    aliased: int
    temporary: int
    code: int

    @property
    def total(self) -> int:
        """What has to be there for a run: all, but what is aliased once."""
        return self.arguments + self.results - self.aliased + self.temporary + self.code


@dataclass(frozen=True, slots=True)
class Profile:
    """The seconds that the parts of one call took, each waited for before the next began.

    Attributes:
        compile: XLA's compilation, when the program was compiled; what reading it took, if it came
            from the compilation cache; 0 for a program that was loaded from a file.
        transfer: looking at the arguments, and copying them to the devices.
        run: the program, from its start until all results are there.
        fetch: copying the results to NumPy arrays; on CPU jax does not copy all of them.
        result: what the call gave.
    """

    compile: float
    transfer: float
    run: float
    fetch: float
    result: Any


def profiled(
    compile_seconds: float,
    take: Callable[[tuple[Any, ...], Mapping[str, Any]], Any],
    go: Callable[[Any], Any],
    args: tuple[Any, ...],
    by_name: Mapping[str, Any],
) -> Profile:
    """A call in its parts.

    Args:
        compile_seconds: what compiling took.
        take: makes of the arguments what `go` is given, on the devices.
        go: executes the program, and gives the result.
        args, by_name: the arguments.
    """
    wait: Any = jax.block_until_ready
    began = time.perf_counter()
    taken = take(args, by_name)
    try:
        wait(taken)
    except RuntimeError:
        go(taken)  # says in words what is wrong: an array was deleted
        raise
    transferred = time.perf_counter()
    result = wait(go(taken))
    ran = time.perf_counter()
    for array in jax.tree.leaves(result):
        if array.is_fully_addressable:
            np.asarray(array)
        else:  # over several processes: what is here
            for shard in array.addressable_shards:
                np.asarray(shard.data)
    fetched = time.perf_counter()
    return Profile(
        compile=compile_seconds,
        transfer=transferred - began,
        run=ran - transferred,
        fetch=fetched - ran,
        result=result,
    )
