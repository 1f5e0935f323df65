"""Read a module from a file, text, bytes, or an object of jax.

`load`, `to_computation`, `compile`, `interpret` and `compare` accept the same sources.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from jaxlib.mlir import ir

from builder.errors import OperandError, brief, error_of
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation
from builder.graph.subcomputations import ReusableFunction
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.support.arguments import is_function
from lowering.jaxlib_api.lazy_jax import jax
from lowering.reading.file_kind import reject_by_prefix
from lowering.reading.module_reader import sealed_bytecode
from lowering.stablehlo.module import (
    Buffer,
    StablehloModule,
    from_bytes,
    load_bytes,
    read_file,
    with_attributes,
)

if TYPE_CHECKING:
    from jax.export import Exported


ModuleSource: TypeAlias = (
    "StablehloModule | Exported | jax.stages.Lowered | jax.stages.Traced | ir.Module | Buffer | "
    "str | os.PathLike[str]"
)
"""The types of sources that `load` reads."""

_TEXT: Final = re.compile(r"\n|\b(?:module|func\.func|HloModule|ENTRY)\b.*\{")


def is_text(source: str) -> bool:
    """Return whether a string is the text of a module, in StableHLO or HLO; else it is a path."""
    return _TEXT.search(source) is not None


def path_of(source: Any) -> str | None:
    """Return the path in a source; None for other sources."""
    is_path = not is_text(source) if isinstance(source, str) else isinstance(source, os.PathLike)
    return os.fsdecode(source) if is_path else None


@explained
def load(source: ModuleSource) -> StablehloModule:
    """Read a module: from a file, from memory, or from an object of jax.

    Files may contain text, bytecode, a portable artifact, or the output of
    `jax.export.Exported.serialize`, regardless of their suffix. Files of other programs are
    supported. Pipes and devices are refused. A large file of another kind is refused by its first
    bytes.

    Damaged bytecode can crash MLIR. Bytecode without this library's checksum is therefore parsed in
    a helper process first, which takes some tenths of a second.

    A module of a function, of jax or `lowering.jit`, keeps the nesting of the function's arguments
    and results: the executable of `lowering.compile` is called like the function, including unused
    arguments and keyword arguments, or with one array for each parameter of @main. `save` writes
    the nesting to the file. In files it consists of dicts, lists, tuples and None: a named tuple
    becomes a tuple, and a dataclass or another class with named fields a dict. A call may pass
    either form; results have the form of the file. Dicts whose keys are not Python literals
    can't be written, and serialized jax functions with classes that were registered with jax
    can't be read in this way: such programs take one array for each parameter.

    The first argument of @main in a module for several platforms of jax is the number of the
    platform. `lowering.compile` sets it, if the module is from an `Exported` or a `Lowered`, or was
    saved here. In other modules it is an ordinary parameter.

    Args:
        source: the path of a file; the content of a file as bytes or text (a string is text if it
            has a line break, or a brace after "module" or "func.func"); a `jax.stages.Lowered` or
            `Traced`; a `jax.export.Exported`; an `ir.Module` of jaxlib; or a StablehloModule,
            which is returned.

    Raises:
        ModuleFileError: the file cannot be read, or is not a StableHLO module with a function
            ``@main``; has the path, line and column.
        OperandError: `source` is something else.

    Example:
        >>> import jax, lowering, numpy as np
        >>> lowering.load(jax.jit(lambda x: x + x).lower(np.ones(2, np.float32)))
        <StablehloModule 'jit__lambda' (arg0: f32[2]) -> f32[2]>
    """
    return module_of(source, "load")


def module_of(source: Any, op: str) -> StablehloModule:
    """Return the module of a source; `op` is the function that the user called."""
    if isinstance(source, StablehloModule):
        return source
    if path_of(source) is not None:
        return from_bytes(*read_file(source, "load", reject_by_prefix))
    if isinstance(source, (str, bytes, bytearray, memoryview)):
        return load_bytes(source)
    if isinstance(source, ir.Module):
        # With a checksum, the bytecode is not parsed in a helper process.
        return from_bytes(b"".join(sealed_bytecode(source)), None)
    if "jax" in sys.modules:  # else it can not be of jax
        from lowering.stablehlo import jax_stages

        if isinstance(source, jax.stages.Traced):
            source = jax_stages.lowered_stage(source)
        if isinstance(source, jax.stages.Lowered):
            module = module_of(jax_stages.reading_sizes(source), op)
            return with_attributes(jax_stages.of_stage(module, source))
        # Importing jax.export is slow.
        if hasattr(source, "mlir_module_serialized"):
            module = load_bytes(source.mlir_module_serialized)
            platforms, used = source.platforms, source.module_kept_var_idx
            return with_attributes(jax_stages.with_tree(module, source, platforms, used))
    first = "a module" if op in ("load", "to_computation") else "an XlaComputation, a module"
    rule = f"expected {first}, a path, text, bytes or an object of jax"
    raise error_of(OperandError, op, rule, _fix(source), got=brief(source))


def _fix(source: Any) -> str:
    """Return a fix for messages: how to get a module from `source`; "" if unknown."""
    if isinstance(source, XlaComputation):
        return "lower it: lowering.lower(computation)"
    if isinstance(source, XlaOp):
        return "build the computation first: op.builder.build(op)"
    if isinstance(source, XlaBuilder):
        return "build the computation first: builder.build(op)"
    if isinstance(source, ReusableFunction):
        return (
            "pass function.computation(shape, ...), with a shape for each parameter, or call "
            "lowering.jit(function) with arrays"
        )
    if "jax" in sys.modules and isinstance(source, jax.stages.Compiled):
        return "pass the jax.stages.Lowered instead of the Compiled: jax.jit(function).lower(...)"
    if hasattr(source, "hlo_text"):
        return "pass the computation or module that the executable was compiled from"
    if hasattr(source, "lower") and callable(source):
        return "pass function.lower(...), with the arguments of the function"
    if is_function(source):
        return "call lowering.jit(function) with arrays"
    return ""
