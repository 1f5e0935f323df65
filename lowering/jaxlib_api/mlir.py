"""MLIR contexts, and modules as text and as bytecode."""

from __future__ import annotations

import importlib
import re
from typing import Any, Final

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext, _mlirHlo
from jaxlib.mlir.dialects import chlo, sdy, stablehlo

__all__ = [
    "BYTECODE_MAGIC",
    "UnreadableModuleError",
    "bytecode",
    "bytecode_pieces",
    "elements_attribute",
    "new_context",
    "read_module",
    "tried_bytecode",
    "tried_text",
    "without_locations",
]

_REGISTRY: Final = ir.DialectRegistry()

_jax_mlir_ext.register_dialects(_REGISTRY)

BYTECODE_MAGIC: Final = b"ML\xefR"
"""What MLIR bytecode, and so a portable artifact, starts with."""


def new_context(*, loads_all: bool = False) -> ir.Context:
    """A fresh MLIR context that knows every dialect that a StableHLO module may hold.

    Those that lowering writes are there; the others (llvm, shape, vhlo, ...) MLIR loads when it
    meets their operations, types or passes, which saves 1.4 ms of 2.4.

    What is made in a context (types, attributes, and so the data of constants) lives as long as
    the context does.

    Multithreading is off: modules here are built and verified one at a time, and MLIR would start
    a thread for each core in each context.

    Args:
        loads_all: whether the others are there from the beginning. It takes that to create their
            operations one by one; and to verify bytecode of others, where an operation of ours may
            have an attribute of theirs ("llvm.byval"), for which MLIR loads nothing.

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
    # register_dialects leaves these four out.
    stablehlo.register_dialect(context)
    chlo.register_dialect(context)
    sdy.register_dialect(context)
    # Not from `dialects.mhlo`, which makes a Python class for each operation of mhlo: 14 ms.
    _mlirHlo.register_mhlo_dialect(context)
    if loads_all:
        context.load_all_available_dialects()
        return context
    # The second brings those along that the registry leaves out too: complex, affine, ub.
    for name in ("func", "tensor"):
        _ = context.dialects[name]
    return context


class UnreadableModuleError(Exception):
    """MLIR refused text or bytecode.

    Attributes:
        reason: MLIR's first complaint, on one line.
        line, column: where in a text, counted from 1; None where that isn't known.
        detail: all that MLIR reported.
    """

    def __init__(self, reason: str, line: int | None, column: int | None, detail: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column
        self.detail = detail


_OF_ARTIFACTS: Final = (b"vhlo", b"unrealized_conversion_cast")
"""What stands in bytecode that the reader of artifacts makes something else of.

They are looked for one by one: as one pattern it takes ten times as long, 0.8 s for 100 MB.
"""

_POSITION: Final = re.compile(r'^loc\("[^"]*":(\d+):(\d+)\)$')


def read_module(context: ir.Context, source: str | bytes) -> ir.Module:
    """The module in MLIR text, or in MLIR bytecode or a portable artifact; verified.

    Nothing is printed. Bytecode with bytes changed by accident can still kill the process: MLIR's
    reader trusts what it reads.

    Raises:
        UnreadableModuleError: MLIR refuses it.
    """
    reports: list[tuple[str, int | None, int | None]] = []

    def report(diagnostic: ir.Diagnostic) -> bool:
        # Nothing may escape from here: there is C++ above. The message may be no valid UTF-8.
        try:
            place = _POSITION.match(str(diagnostic.location))
            line, column = (int(place[1]), int(place[2])) if place else (None, None)
            reports.append((diagnostic.message, line, column))
        except Exception:
            reports.append(("bytes that are no text where a text should stand", None, None))
        return True

    # MLIR's errors are taken by the handler, not by the exception: making the exception aborts
    # the process when a message is no valid UTF-8.
    before = context.emit_error_diagnostics
    context.emit_error_diagnostics = True
    handler: Any = context.attach_diagnostic_handler(report)
    try:
        if isinstance(source, str):
            return ir.Module.parse(source, context)
        if not any(one in source for one in _OF_ARTIFACTS):
            return ir.Module.parse(source, context)
        # It reads plain bytecode as well, in twice to three times the time that MLIR's own parser
        # takes, which would leave an artifact in vhlo.
        module: ir.Module = stablehlo.deserialize_portable_artifact(context, source)
        module.operation.verify()
        return module
    except MemoryError:
        raise UnreadableModuleError(
            "it asks for more memory than there is", None, None, ""
        ) from None
    except (ir.MLIRError, ValueError) as error:
        reason, line, column = reports[0] if reports else (str(error), None, None)
        detail = "\n".join(r[0] for r in reports) or str(error)
        lines = reason.strip().splitlines()
        raise UnreadableModuleError(
            lines[0] if lines else "no reason", line, column, detail
        ) from None
    finally:
        handler.detach()
        context.emit_error_diagnostics = before


def tried_bytecode(source: bytes) -> bytes:
    """Nothing, once a module was read and written out as text, which may end the process.

    Raises:
        UnreadableModuleError: MLIR refuses it.
    """
    module = read_module(new_context(loads_all=True), source)
    str(module)
    _look_at_names(module)
    return b""


def tried_text(source: bytes) -> bytes:
    """The same of a module in text.

    Raises:
        UnreadableModuleError: MLIR refuses it.
    """
    _look_at_names(read_module(new_context(), source.decode()))
    return b""


def _look_at_names(module: ir.Module) -> None:
    """Asks for the names of all attributes: those that are no UTF-8 end the process."""

    def look(operation: ir.Operation) -> ir.WalkResult:
        pending: list[Any] = [operation.attributes]
        while pending:
            one = pending.pop()
            if isinstance(one, ir.ArrayAttr):
                pending += one
                continue
            if isinstance(one, ir.DictAttr):
                names = [one[i].name for i in range(len(one))]
            elif isinstance(one, ir.Attribute):
                continue
            else:
                names = list(one)
            for name in names:
                try:
                    pending.append(one[name])
                except (KeyError, TypeError):  # out of order; or Python has no class for it
                    continue
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)


def bytecode(module: ir.Module | ir.Operation) -> bytes:
    """MLIR bytecode of a module, or of its operation, locations included."""
    return b"".join(bytecode_pieces(module))


def bytecode_pieces(module: ir.Module | ir.Operation) -> list[bytes]:
    """The same in pieces, as MLIR writes it; large constants are a piece each, not copied again."""
    pieces = _Pieces()
    module.operation.write_bytecode(pieces)
    return pieces.written


class _Pieces:
    """A file that keeps what is written to it as it comes."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, piece: bytes) -> None:
        self.written.append(piece)


def elements_attribute(elements: Any, kind: ir.Type) -> ir.Attribute:
    """The bytes of an array (a NumPy array of u8; of i1 a byte an element) as an attribute.

    MLIR does not look whether they are as many as the type says.
    """
    if str(ir.RankedTensorType(kind).element_type) == "i1":
        elements = elements.view("bool")
    attribute: ir.Attribute = ir.DenseElementsAttr.get(elements, type=kind)
    return attribute


def without_locations(module_bytecode: bytes) -> bytes:
    """The same bytecode for modules that differ in their source lines alone."""
    context = new_context()
    module = ir.Module.parse(module_bytecode, context)
    passes: Any = importlib.import_module("jaxlib.mlir.passmanager")
    passes.PassManager.parse("builtin.module(strip-debuginfo)", context).run(module.operation)
    return bytecode(module)
