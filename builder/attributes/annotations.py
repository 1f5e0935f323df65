"""Annotations: attributes of a module and its functions, read by other compilers.

Lowering emits them unchanged: device meshes, shardings of results, JAX's attributes of results
(`jax.result_info`), the number of partitions (`mhlo.num_partitions`). Most come from imported
modules. The attributes of a single op are in `XlaOp.metadata`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from builder.errors import BuilderError, error_of

if TYPE_CHECKING:
    from builder.graph.computation import XlaComputation


ONE_SHARDING_FORM: Final = (
    "a program can't have both GSPMD's tilings and shardings by the axes of a mesh"
)
ONE_MESH: Final = (
    "define the mesh identically in all computations, or rename one: xb.Mesh({...}, name='other')"
)
"""The fix if two computations define different meshes with the same name."""

AttributeTexts = Mapping[str, str]
"""Attributes by name, each as MLIR text."""

NO_ATTRIBUTES: Final[AttributeTexts] = MappingProxyType({})

Meshes = Mapping[str, AttributeTexts]
"""The attributes of each device mesh, by the mesh's name.

The attribute "mesh" defines the mesh. Only other compilers read the other attributes."""

NO_MESHES: Final[Meshes] = MappingProxyType({})


class Annotations(NamedTuple):
    """Attributes of a computation by name, each as MLIR text, and the nesting of its arguments.

    Attributes:
        module: the attributes of the module, such as `mhlo.num_partitions`; only the entry
            computation has them.
        function: the attributes of the computation's function.
        parameters: for each array of the parameters (tuples flattened), the attributes that are
            not in the metadata of the parameter op; empty if no array has any.
        results: for each array of the result (tuples flattened), attributes such as
            `jax.result_info`; empty if no array has any.
        meshes: the device meshes that shardings refer to, by name.
        result_shardings: for each array of the result, its sharding as text, or None; empty if no
            array has a sharding. They apply only if the computation is the entry.
        terminator: the attributes of the operation that ends the computation's function or region.
        nesting: for the entry computation of a function of jax or `lowering.jit`, the nesting of
            the function's arguments and results (`CallTree` in `lowering`); else None.

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
    terminator: AttributeTexts = NO_ATTRIBUTES
    nesting: Any = None


def meshes(computation: XlaComputation) -> Meshes:
    """Return the device meshes that a computation and the computations it applies refer to.

    Raises:
        BuilderError: two different meshes have the same name, or some of the computations use
            meshes and others GSPMD's tilings.
    """
    by_name: dict[str, AttributeTexts] = {}
    forms: dict[str, XlaComputation] = {}
    for part in (computation, *computation.called_computations()):
        if part._sharding_form:
            forms.setdefault(part._sharding_form, part)
        if part.annotations is None:
            continue
        for name, mesh in part.annotations.meshes.items():
            if by_name.setdefault(name, mesh) != mesh:
                raise BuilderError(
                    f"its computations must not have different meshes with the same name, {name!r}",
                    got=f"\n  {by_name[name]['mesh']}\n  {mesh['mesh']}, in {part.name!r}",
                    fix=ONE_MESH,
                    op=computation.name,
                )
    if len(forms) > 1:
        listed = "\n".join(f"  {form}, in {part.name!r}" for form, part in forms.items())
        fix = "write tilings in place of shardings by mesh axes: mesh.sharding(...).tiling"
        got = f"\n{listed}"
        raise error_of(BuilderError, computation.name, ONE_SHARDING_FORM, fix, got=got)
    return by_name
