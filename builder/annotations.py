"""Annotations: what a program says for the compilers downstream, besides what it computes.

They come in with modules of other programs, and go out again as they came: the meshes of devices
that shardings name, what JAX notes of results, for how many devices it was written. An op carries
its own in `XlaOp.notes`; what belongs to no op stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from builder.errors import BuilderError

if TYPE_CHECKING:
    from builder.computation import XlaComputation

__all__ = [
    "NO_MESHES",
    "NO_TEXTS",
    "SHARDING_PER_VALUE",
    "Annotations",
    "Meshes",
    "Texts",
    "meshes",
]

Texts = Mapping[str, str]
"""Attributes by name, each as the text that it has in MLIR."""

NO_TEXTS: Final[Texts] = MappingProxyType({})

Meshes = Mapping[str, Texts]
"""Meshes of devices by name; "mesh" of each is what it is, and others are for other compilers."""

NO_MESHES: Final[Meshes] = MappingProxyType({})

SHARDING_PER_VALUE: Final = "#sdy.sharding_per_value<["
"""How Shardy's sharding of an operation's results begins; it ends with "]>"."""


class Annotations(NamedTuple):
    """Attributes of a computation by name, each as the text that it has in MLIR.

    Attributes:
        module: those of the module, such as `mhlo.num_partitions`; of the entry only.
        function: those of its function.
        parameters: for each array among its parameters, tuples flattened, those that are not noted
            on the parameter; empty if there are none.
        results: for each array of its result, such as `jax.result_info`; empty if there are none.
        meshes: the meshes of devices by the names that shardings call them.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder("given_back")
        >>> b.annotations = Annotations(
        ...     module={"mhlo.num_partitions": "1 : i32"}, results=({"jax.result_info": '"y"'},)
        ... )
        >>> annotations = b.build(b.parameter(xb.f32[2], "x")).annotations
        >>> dict(annotations.module), list(map(dict, annotations.results))
        ({'mhlo.num_partitions': '1 : i32'}, [{'jax.result_info': '"y"'}])
    """

    module: Texts = NO_TEXTS
    function: Texts = NO_TEXTS
    parameters: tuple[Texts, ...] = ()
    results: tuple[Texts, ...] = ()
    meshes: Meshes = NO_MESHES


def meshes(computation: XlaComputation) -> Meshes:
    """The meshes that a computation names, and those that it applies.

    Raises:
        BuilderError: two of them are called the same and are not the same.
    """
    found: dict[str, Texts] = {}
    for one in (computation, *computation.called_computations()):
        if one.annotations is None:
            continue
        for name, mesh in one.annotations.meshes.items():
            if found.setdefault(name, mesh) != mesh:
                raise BuilderError(
                    f"{computation.name}: computations in it name two meshes {name!r}, got\n"
                    f"  {found[name]['mesh']}\n  {mesh['mesh']}, in {one.name!r}\n"
                    f"fix: import programs that are to be one with one mesh",
                    op=computation.name,
                )
    return found
