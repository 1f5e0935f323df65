"""Annotations: what a program says for the compilers downstream, besides what it computes.

They come in with modules of other programs, and go out again as they came: the meshes of devices
that shardings name, what JAX notes of results, for how many devices it was written. An op carries
its own in `XlaOp.metadata`; what belongs to no op stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from builder.errors import BuilderError

if TYPE_CHECKING:
    from builder.graph.computation import XlaComputation

__all__ = [
    "NO_ATTRIBUTES",
    "NO_MESHES",
    "Annotations",
    "AttributeTexts",
    "Meshes",
    "meshes",
]

AttributeTexts = Mapping[str, str]
"""Attributes by name, each as the text that it has in MLIR."""

NO_ATTRIBUTES: Final[AttributeTexts] = MappingProxyType({})

Meshes = Mapping[str, AttributeTexts]
"""Meshes of devices by name; "mesh" of each is what it is, and others are for other compilers."""

NO_MESHES: Final[Meshes] = MappingProxyType({})


class Annotations(NamedTuple):
    """Attributes of a computation by name, each as the text that it has in MLIR.

    Attributes:
        module: those of the module, such as `mhlo.num_partitions`; of the entry only.
        function: those of its function.
        parameters: for each array among its parameters, tuples flattened, those that are not noted
            on the parameter; empty if there are none.
        results: for each array of its result, such as `jax.result_info`; empty if there are none.
        meshes: the meshes of devices by the names that shardings call them.
        result_shardings: for each array of its result how it lies on devices, as text; None where
            nothing is said, and empty if nothing is said of any. Like aliases it is a fact of the
            program that is entered here.

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

    module: AttributeTexts = NO_ATTRIBUTES
    function: AttributeTexts = NO_ATTRIBUTES
    parameters: tuple[AttributeTexts, ...] = ()
    results: tuple[AttributeTexts, ...] = ()
    meshes: Meshes = NO_MESHES
    result_shardings: tuple[str | None, ...] = ()


def meshes(computation: XlaComputation) -> Meshes:
    """The meshes that a computation names, and those that it applies.

    Raises:
        BuilderError: two of them are called the same and are not the same; or one of the
            computations speaks of meshes, and another has GSPMD's tilings.
    """
    found: dict[str, AttributeTexts] = {}
    forms: dict[str, XlaComputation] = {}
    for one in (computation, *computation.called_computations()):
        if one.sharding_form:
            forms.setdefault(one.sharding_form, one)
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
    if len(forms) > 1:
        said = "\n".join([f"  {form}, in {one.name!r}" for form, one in forms.items()])
        raise BuilderError(
            f"{computation.name}: a program says how arrays are cut up by tilings, to GSPMD, or by "
            f"the axes of a mesh, to Shardy, and not both, got\n{said}\n"
            f"fix: mesh.sharding(...).tiling, where the others are tilings",
            op=computation.name,
        )
    return found
