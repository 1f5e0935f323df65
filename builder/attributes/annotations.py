"""Annotations: attributes of a program that other compilers read.

They come with imported modules and are emitted unchanged: the device meshes that shardings name,
JAX's attributes of results, the number of devices. Attributes of an op are in `XlaOp.metadata`;
attributes that belong to no op are here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from builder.errors import BuilderError, error_of

if TYPE_CHECKING:
    from builder.graph.computation import XlaComputation


ONE_SHARDING_FORM: Final = (
    "a program can't have both GSPMD's tilings and shardings by the axes of a mesh"
)
ONE_MESH: Final = "import all programs with one mesh"
"""The fix for programs that define meshes of the same name differently."""

AttributeTexts = Mapping[str, str]
"""Attributes by name, each as MLIR text."""

NO_ATTRIBUTES: Final[AttributeTexts] = MappingProxyType({})

Meshes = Mapping[str, AttributeTexts]
"""Device meshes by name. The attribute "mesh" defines the mesh; others are for other compilers."""

NO_MESHES: Final[Meshes] = MappingProxyType({})


class Annotations(NamedTuple):
    """Attributes of a computation by name, each as MLIR text.

    Attributes:
        module: attributes of the module, such as `mhlo.num_partitions`; of the entry only.
        function: attributes of its function.
        parameters: for each array among its parameters, tuples flattened, the attributes that are
            not in the metadata of the parameter; empty if there are none.
        results: for each array of its result, attributes such as `jax.result_info`; empty if there
            are none.
        meshes: the device meshes by the names that shardings use.
        result_shardings: for each array of its result the sharding as text, or None; empty if no
            result has a sharding. Like `aliases`, they apply only if the computation is the entry.

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
    """Return the device meshes that a computation and the computations it applies refer to.

    Raises:
        BuilderError: two different meshes have the same name, or some of the computations use
            meshes and others GSPMD's tilings.
    """
    by_name: dict[str, AttributeTexts] = {}
    forms: dict[str, XlaComputation] = {}
    for part in (computation, *computation.called_computations()):
        if part.sharding_form:
            forms.setdefault(part.sharding_form, part)
        if part.annotations is None:
            continue
        for name, mesh in part.annotations.meshes.items():
            if by_name.setdefault(name, mesh) != mesh:
                raise BuilderError(
                    f"{computation.name}: its computations must not have different meshes of one "
                    f"name, {name!r}, got\n  {by_name[name]['mesh']}\n"
                    f"  {mesh['mesh']}, in {part.name!r}\n"
                    f"fix: {ONE_MESH}",
                    op=computation.name,
                )
    if len(forms) > 1:
        listed = "\n".join(f"  {form}, in {part.name!r}" for form, part in forms.items())
        rule = f"{ONE_SHARDING_FORM}, got\n{listed}"
        fix = "convert the axes of a mesh to tilings with mesh.sharding(...).tiling"
        raise error_of(BuilderError, computation.name, rule, fix)
    return by_name
