"""MLIR contexts, and modules as text and as bytecode."""

from __future__ import annotations

import importlib
import re
from typing import Any, Final

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext, _mlirHlo
from jaxlib.mlir.dialects import chlo, sdy, stablehlo

_REGISTRY: Final = ir.DialectRegistry()

_jax_mlir_ext.register_dialects(_REGISTRY)

BYTECODE_MAGIC: Final = b"ML\xefR"
"""The first bytes of MLIR bytecode, and so of a portable artifact."""


def new_context(*, loads_all: bool = False) -> ir.Context:
    """Return a new MLIR context with every dialect that a StableHLO module may contain.

    The dialects that lowering emits are loaded. MLIR loads the others (llvm, shape, vhlo, ...) when
    it parses their operations or types, which makes creating a context faster.

    Types and attributes, and so the data of constants, live as long as their context.

    Multithreading is off: modules are built and verified one at a time, and MLIR would start a
    thread for each core in each context.

    Args:
        loads_all: whether to load the other dialects too. This is required to create their
            operations, and to verify bytecode of other programs, where an operation may have an
            attribute of a dialect ("llvm.byval") that MLIR does not load.

    Example:
        >>> from lowering.jaxlib_api import mlir
        >>> from jaxlib.mlir import ir
        >>> with mlir.new_context():
        ...     print(ir.Type.parse("tensor<2xf32>"))
        tensor<2xf32>
    """
    context = ir.Context()
    context.enable_multithreading(False)
    context.append_dialect_registry(_REGISTRY)
    # register_dialects omits these four.
    stablehlo.register_dialect(context)
    chlo.register_dialect(context)
    sdy.register_dialect(context)
    # Importing `dialects.mhlo` is slow: it creates a Python class for each operation of mhlo.
    _mlirHlo.register_mhlo_dialect(context)
    if loads_all:
        context.load_all_available_dialects()
        return context
    # Loading tensor also loads dialects that the registry omits: complex, affine, ub.
    for name in ("func", "tensor"):
        _ = context.dialects[name]
    return context


class UnreadableModuleError(Exception):
    """MLIR or XLA refused text or bytes.

    Attributes:
        reason: the first diagnostic, on one line.
        line, column: the position in the text, counted from 1; None if unknown.
        detail: all diagnostics.
    """

    def __init__(
        self, reason: str, line: int | None = None, column: int | None = None, detail: str = ""
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column
        self.detail = detail


_ARTIFACT_WORDS: Final = (b"vhlo", b"unrealized_conversion_cast")
"""`read_module` reads bytes that contain one of these strings as a portable artifact.

Two searches are much faster than one regular expression.
"""

_POSITION: Final = re.compile(r'^loc\("[^"]*":(\d+):(\d+)\)$')


def read_module(context: ir.Context, source: str | bytes) -> ir.Module:
    """Read and verify a module in MLIR text, MLIR bytecode or a portable artifact.

    Nothing is printed. Damaged bytecode can crash the process, since MLIR's reader trusts bytecode.

    Raises:
        UnreadableModuleError: MLIR refuses the source.
    """
    reports: list[tuple[str, int | None, int | None]] = []

    def report(diagnostic: ir.Diagnostic) -> bool:
        # The caller is C++, so no exception may leave. The message may not be valid UTF-8.
        try:
            place = _POSITION.match(str(diagnostic.location))
            line, column = (int(place[1]), int(place[2])) if place else (None, None)
            reports.append((diagnostic.message, line, column))
        except Exception:
            reports.append(("a diagnostic is not valid UTF-8", None, None))
        return True

    # Diagnostics are read by the handler instead of from the exception: creating the exception
    # aborts the process if a message is not valid UTF-8.
    before = context.emit_error_diagnostics
    context.emit_error_diagnostics = True
    handler: Any = context.attach_diagnostic_handler(report)
    try:
        if isinstance(source, str):
            return ir.Module.parse(source, context)
        if not any(word in source for word in _ARTIFACT_WORDS):
            return ir.Module.parse(source, context)
        # MLIR's own parser is faster for bytecode, but would leave an artifact in vhlo.
        module: ir.Module = stablehlo.deserialize_portable_artifact(context, source)
        module.operation.verify()
        return module
    except MemoryError:
        raise UnreadableModuleError("the module requires more memory than available") from None
    except (ir.MLIRError, ValueError) as error:
        reason, line, column = reports[0] if reports else (str(error), None, None)
        detail = "\n".join(r[0] for r in reports) or str(error)
        lines = reason.strip().splitlines()
        reason = lines[0] if lines else "no reason"
        raise UnreadableModuleError(reason, line, column, detail) from None
    finally:
        handler.detach()
        context.emit_error_diagnostics = before


def try_bytecode(source: bytes) -> bytes:
    """Check, in a helper process, whether reading and printing bytecode crashes; return b"".

    Raises:
        UnreadableModuleError: MLIR refuses the bytecode.
    """
    module = read_module(new_context(loads_all=True), source)
    str(module)
    _visit_names(module)
    return b""


def try_text(source: bytes) -> bytes:
    """Check, in a helper process, whether reading a module in text crashes; return b"".

    Raises:
        UnreadableModuleError: MLIR refuses the text.
    """
    _visit_names(read_module(new_context(), source.decode()))
    return b""


def _visit_names(module: ir.Module) -> None:
    """Read the names of all attributes: a name that is not UTF-8 aborts the process."""

    def visit(operation: ir.Operation) -> ir.WalkResult:
        pending: list[Any] = [operation.attributes]
        while pending:
            value = pending.pop()
            if isinstance(value, ir.ArrayAttr):
                pending += value
                continue
            if isinstance(value, ir.DictAttr):
                names = [value[i].name for i in range(len(value))]
            elif isinstance(value, ir.Attribute):
                continue
            else:  # the attributes of the operation
                names = list(value)
            for name in names:
                try:
                    pending.append(value[name])
                except (KeyError, TypeError):  # names out of order; or no Python class
                    continue
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)


def bytecode(module: ir.Module | ir.Operation) -> bytes:
    """Write a module, or its operation, as MLIR bytecode with locations."""
    return b"".join(bytecode_pieces(module))


def bytecode_pieces(module: ir.Module | ir.Operation) -> list[bytes]:
    """Return MLIR bytecode as a list of pieces; a large constant is one piece, not copied again."""
    pieces = _Pieces()
    module.operation.write_bytecode(pieces)
    return pieces.written


class _Pieces:
    """A file that collects the pieces written to it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, piece: bytes) -> None:
        self.written.append(piece)


def elements_attribute(elements: Any, tensor_type: ir.Type) -> ir.Attribute:
    """Return an attribute with the elements in a NumPy array of bytes (for i1, a byte for each).

    MLIR does not check that the number of elements matches the type.
    """
    if str(ir.RankedTensorType(tensor_type).element_type) == "i1":
        elements = elements.view("bool")
    attribute: ir.Attribute = ir.DenseElementsAttr.get(elements, type=tensor_type)
    return attribute


def without_locations(module_bytecode: bytes) -> bytes:
    """Return bytecode without locations, equal for modules that differ only in locations."""
    context = new_context()
    module = ir.Module.parse(module_bytecode, context)
    passes: Any = importlib.import_module("jaxlib.mlir.passmanager")
    passes.PassManager.parse("builtin.module(strip-debuginfo)", context).run(module.operation)
    return bytecode(module)


def drop_unused_functions(module: ir.Operation) -> None:
    """Erase the private functions of a module, in place, that nothing refers to."""
    passes: Any = importlib.import_module("jaxlib.mlir.passmanager")
    passes.PassManager.parse("builtin.module(symbol-dce)", module.context).run(module)
