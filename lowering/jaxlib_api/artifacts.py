"""Portable artifacts, decomposition of CHLO, refinement of sizes, StableHLO's interpreter."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from jaxlib.version import __version_info__ as jaxlib_version

from lowering.jaxlib_api.mlir import UnreadableModuleError, bytecode, new_context
from lowering.jaxlib_api.native import jax_extension
from lowering.jaxlib_api.versions import current_version

_OTHER_DIALECTS: Final = (b"chlo\0", b"mhlo\0", b"sdy\0")
"""Strings in all bytecode with operations of chlo, mhlo or sdy, and in some other bytecode."""


def serialize_artifact(
    module: ir.Module,
    version: str | Callable[[bytes], str],
    attributes: Mapping[str, str],
    prepare: Callable[[ir.Module], None] | None = None,
) -> bytes:
    """Write the portable artifact of a module for a StableHLO version.

    The module is copied to a new context, because jaxlib leaves a second copy of every constant in
    the context of the module that it translates.

    Two functions of jaxlib write the same bytes. The fast one supports only StableHLO; the slow one
    converts operations of chlo to composites.

    Args:
        module: the module, which is not changed.
        version: the StableHLO version, such as "1.0.0", or a function that takes the module's
            bytecode and returns the version.
        attributes: further string attributes of the module in the artifact.
        prepare: changes the copy in place; called if the copy may have operations of chlo, mhlo or
            sdy.

    Raises:
        ValueError: the version cannot express the module; the message is MLIR's report.
    """
    code = bytecode(module)
    if not isinstance(version, str):
        version = version(code)
    # Walking the operations would double the time.
    foreign = any(name in code for name in _OTHER_DIALECTS)
    context = new_context()
    copy = ir.Module.parse(code, context)
    del code
    for name, value in attributes.items():
        copy.operation.attributes[name] = ir.StringAttr.get(value, context)
    if foreign:
        if prepare is not None:
            prepare(copy)
        return decomposed(copy, version)
    reports: list[str] = []

    def report(diagnostic: ir.Diagnostic) -> bool:
        reports.append(f"{diagnostic.location}: error: {diagnostic.message}")
        return True

    handler: Any = context.attach_diagnostic_handler(report)  # otherwise MLIR prints them
    try:
        artifact: bytes = stablehlo.serialize_portable_artifact(copy, version)
    except (ir.MLIRError, ValueError) as error:
        raise ValueError("\n".join(reports) or str(error)) from None
    finally:
        handler.detach()
    return artifact


def decomposed(module: ir.Module | ir.Operation, version: str | None = None) -> bytes:
    """Write the portable artifact of a module, with operations of chlo decomposed to StableHLO.

    Args:
        module: the module, which is not changed.
        version: the StableHLO version; None for the newest that jaxlib writes.

    Raises:
        ValueError: jaxlib can't write the module; the message is MLIR's report.
    """
    try:
        artifact: bytes = jax_extension.mlir.serialize_portable_artifact(
            bytecode(module), version or current_version()
        )
    except (RuntimeError, ValueError) as error:  # RuntimeError: jax.errors.JaxRuntimeError
        raise ValueError(str(error)) from None
    return artifact


def refined(module: ir.Module) -> bytes:
    """Replace dynamic sizes by static sizes where they follow from the sizes of @main's arguments.

    Return the new module's bytecode. Functions are inlined and size computations are folded, so
    operations that query or take sizes become static. Custom calls of @shape_assertion are checked
    and removed. Unknown sizes remain dynamic.

    Raises:
        ValueError: sizes contradict each other, or an assertion fails; the message is MLIR's
            report.
    """
    try:
        return refined_code(bytecode(module))
    except UnreadableModuleError as error:
        raise ValueError(error.reason) from None


REFINING_DIVIDES_BY_ZERO: Final = jaxlib_version < (0, 11, 1)
"""Whether a signal ends the process if `refined_code` folds an integer division by zero."""


def refined_code(code: bytes) -> bytes:
    """Refine a module as `refined` does, from bytecode to bytecode.

    Raises:
        UnreadableModuleError: sizes contradict each other, or an assertion fails; `reason` is
            MLIR's report.
    """
    try:
        # Sizes may remain dynamic; a later error about one can name its operation.
        refined_bytes: bytes = jax_extension.mlir.refine_polymorphic_shapes(
            code, enable_shape_assertions=True, validate_static_shapes=False
        )
    except (RuntimeError, ValueError) as error:  # RuntimeError: jax.errors.JaxRuntimeError
        raise UnreadableModuleError(str(error)) from None
    return refined_bytes


def interpreter_context() -> ir.Context:
    """Return a new MLIR context that includes the interpreter's own operations.

    One of them is `interpreter.probe`, which writes its operand to a file.
    """
    context = new_context()
    stablehlo.register_interpreter_dialect(context)
    return context


def interpreted(
    module: ir.Module, arguments: Sequence[ir.Attribute], folder: str = ""
) -> list[Any]:
    """Evaluate `@main` with StableHLO's reference interpreter; return NumPy arrays.

    Unsupported operations abort the process, and so do results whose element type has no Python
    type in MLIR, such as complex numbers.

    Args:
        module: a module in a context of `interpreter_context`.
        arguments: the results of `elements_attribute`.
        folder: an empty folder, or "" if the module has no probes. Each executed probe writes a
            file `probeN.npy` there, and a line in `index.csv`: the probe's name, the type of the
            value, the file.
    """
    numpy: Any = importlib.import_module("numpy")
    return [numpy.array(value) for value in stablehlo.eval_module(module, list(arguments), folder)]
