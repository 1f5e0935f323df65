"""Portable artifacts, and the passes that jaxlib runs on a module while it writes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from lowering.jaxlib_api.mlir import bytecode, new_context
from lowering.jaxlib_api.native import jax_extension
from lowering.jaxlib_api.versions import current_version

__all__ = [
    "decomposed",
    "refined",
    "serialize_artifact",
]

_NAMES_OF_OTHERS: Final = (b"chlo\0", b"mhlo\0", b"sdy\0")
"""What stands in bytecode that holds operations of these dialects (and sometimes else)."""


def serialize_artifact(
    module: ir.Module,
    version: str,
    marks: Mapping[str, str],
    prepare: Callable[[ir.Module], None] | None = None,
) -> bytes:
    """The portable artifact of a module for a StableHLO version.

    It is made of a copy in a context of its own: the translation leaves a second copy of every
    constant in the context that it happens in.

    Two functions of jaxlib do this, and give the same bytes. One takes 2 us an operation, and knows
    nothing but StableHLO. The other takes 30 us, and turns operations of chlo into composites.

    Args:
        module: is not changed.
        version: three numbers.
        marks: string attributes that the module in the artifact carries besides.
        prepare: changes the copy, if it holds operations of other dialects.

    Raises:
        ValueError: the module can't be said in that version; the text holds MLIR's report.
    """
    code = bytecode(module)
    # Looked for in the bytes: walking over the operations takes as long as all the rest.
    foreign = any(name in code for name in _NAMES_OF_OTHERS)
    context = new_context()
    copy = ir.Module.parse(code, context)
    del code
    for name, value in marks.items():
        copy.operation.attributes[name] = ir.StringAttr.get(value, context)
    if foreign:
        if prepare is not None:
            prepare(copy)
        try:
            artifact: bytes = jax_extension.mlir.serialize_portable_artifact(
                bytecode(copy), version
            )
        except (RuntimeError, ValueError) as error:  # RuntimeError: jax.errors.JaxRuntimeError
            raise ValueError(str(error)) from None
        return artifact
    reports: list[str] = []

    def report(diagnostic: ir.Diagnostic) -> bool:
        reports.append(diagnostic.message)
        return True

    handler: Any = context.attach_diagnostic_handler(report)  # without it, they are printed
    try:
        artifact = stablehlo.serialize_portable_artifact(copy, version)
    except (ir.MLIRError, ValueError) as error:
        raise ValueError("\n".join(reports) or str(error)) from None
    finally:
        handler.detach()
    return artifact


def decomposed(module: ir.Module | ir.Operation) -> bytes:
    """The portable artifact of a module, in which operations of chlo are said in StableHLO's.

    Raises:
        ValueError: that can't be; the text holds MLIR's report.
    """
    try:
        artifact: bytes = jax_extension.mlir.serialize_portable_artifact(
            bytecode(module), current_version()
        )
    except (RuntimeError, ValueError) as error:  # RuntimeError: jax.errors.JaxRuntimeError
        raise ValueError(str(error)) from None
    return artifact


def refined(module: ir.Module) -> bytes:
    """Bytecode of a module with the sizes worked out that follow from those of @main's arguments.

    Functions are put where they are called. What is known of sizes is worked out: the operations
    that ask for them, or are given them, become others without; those that check what is said of
    sizes (custom calls of @shape_assertion) go away. Where a size stays unknown, it stays as it is.

    Raises:
        ValueError: sizes contradict each other, or a check of them fails; the text says how.
    """
    try:
        # All sizes are not asked to be known: who meets one that isn't can say where.
        found: bytes = jax_extension.mlir.refine_polymorphic_shapes(
            bytecode(module), enable_shape_assertions=True, validate_static_shapes=False
        )
    except (RuntimeError, ValueError) as error:  # RuntimeError: jax.errors.JaxRuntimeError
        raise ValueError(str(error)) from None
    return found
