"""Launch programs on several devices, and raise errors for their failures."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import compress, filterfalse
from typing import Any, Final

import jax

from lowering.errors import ExecutionError
from lowering.host.callbacks import Disagreement, raise_failure, shared_failure
from lowering.jaxlib_api import jax_arrays
from lowering.running.arguments import Leaf
from lowering.running.failures import bytes_needed, must_wait, raise_execution_error
from lowering.running.program import ProgramInfo

Execute = Callable[[Any], tuple[list[Any], Callable[[], None]]]
"""A function that executes a program on the given arrays.

It returns the results, and a function that waits until the program has ended.
"""

_LAUNCH: Final = threading.Lock()
"""The lock that a thread acquires to launch a program.

All devices must execute programs in the same order: otherwise they could deadlock.
"""

_aval_of: Final = jax_arrays.aval_of
_is_deleted: Final = jax_arrays.is_deleted
_layout_of: Final = jax_arrays.layout_of
_sharding_of: Final = jax_arrays.sharding_getter()


class Launcher:
    """Launches one program on several devices.

    Attributes:
        waits: whether a call waits for the end of the program.
        execute: the function that executes the program; set it before the first call.
    """

    def __init__(self, loaded: Any, info: ProgramInfo, devices: Sequence[jax.Device]) -> None:
        self._loaded: Final = loaded
        self._info: Final = info
        self._devices: Final = devices
        self._failure: Final = shared_failure(info.callbacks)
        self._disagreements: Final = [c for c in info.callbacks if isinstance(c, Disagreement)]
        self.waits: Final = must_wait(info, devices[0], bytes_needed(loaded))
        self.execute: Execute

    def __call__(self, arrays: Any) -> list[Any]:
        """Execute the program, and return the results.

        Raises:
            ExecutionError: the program failed.
        """
        try:
            if self._failure is None:
                return self._launch(arrays)
            return self._failure.raised_by(lambda: self._launch(arrays))
        except RuntimeError as error:
            for disagreement in self._disagreements:
                if disagreement.noticed:
                    disagreement.noticed = False
                    raise ExecutionError(
                        disagreement.rule,
                        op=disagreement.op,
                        fix=disagreement.fix,
                        context=disagreement.context,
                        detail=str(error),
                    ) from None
            raise_failure(error)
            devices = self._devices
            where = f"{devices[0]} to {devices[-1]}" if len(devices) > 1 else str(devices[0])
            raise_execution_error(error, self._info, self._loaded, where)
            raise

    def _launch(self, arrays: Any) -> list[Any]:
        with _LAUNCH:
            results, wait = self.execute(arrays)
        if self.waits:
            wait()
        return results


class AcceptedArrays:
    """Recognizes jax.Arrays that can be passed without a copy.

    `accept` compares one property of all arrays at a time, which is faster than one array at a
    time. Equal avals and shardings are nearly always one object, and lists compare identity first.

    Attributes:
        avals, shardings: the expected avals and shardings. `expect` replaces both by the objects of
            actual arrays; `accept` replaces the shardings.
    """

    def __init__(self, leaves: Sequence[Leaf], shardings: Sequence[Any]) -> None:
        self.avals = [leaf.aval for leaf in leaves]
        self.shardings = list(shardings)
        self._types: Final = [jax_arrays.array_type] * len(leaves)
        self._has_layout: Final = [leaf.layout is not None for leaf in leaves]
        self._layouts: Final = [leaf.layout for leaf in leaves if leaf.layout is not None]

    def accept(self, arrays: Sequence[Any]) -> bool:
        """Return whether all arrays can be passed without a copy; False if this is unknown."""
        if (
            [*map(type, arrays)] != self._types
            or [*map(_aval_of, arrays)] != self.avals
            or (shardings := [*map(_sharding_of, arrays)]) != self.shardings
            or any(map(_is_deleted, arrays))
        ):
            return False
        self.shardings = shardings
        # Reading the layout of a deleted array crashes jaxlib 0.10.
        chosen = filterfalse(_is_deleted, compress(arrays, self._has_layout))
        return not self._layouts or [*map(_layout_of, chosen)] == self._layouts

    def expect(self, arrays: Sequence[jax.Array]) -> None:
        """Expect arrays with the avals and shardings of `arrays`, which have been checked.

        The initial expectations may differ: jax describes an array in several ways, and
        NamedShardings of different meshes can be equivalent.
        """
        self.avals = [*map(_aval_of, arrays)]
        self.shardings = [*map(_sharding_of, arrays)]
