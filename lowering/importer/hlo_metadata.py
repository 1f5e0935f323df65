"""Complete the names in HLO's metadata, before jaxlib's converter reads the HLO.

The converter makes locations of the names and source lines in the metadata. It drops types, and the
source lines of instructions without a name in their metadata.
"""

from __future__ import annotations

import re
from typing import Final

from lowering.reading.protocol_buffers import encoded_field, fields_of, replaced

TYPE_END: Final = ":\x1f"
"""The end of the type in the names that `with_complete_names` writes."""

INCOMPLETE: Final = re.compile(rb"\bop_type=|\bmetadata=\{\s*source_file=")
"""Finds metadata in HLO text that `with_complete_names` changes."""

_INSTRUCTIONS: Final = (3, 2)
"""The fields HloModuleProto.computations and HloComputationProto.instructions."""
_NAME: Final = 1
"""The field HloInstructionProto.name."""
_METADATA: Final = 7
"""The field HloInstructionProto.metadata."""
_OP_TYPE, _OP_NAME, _SOURCE_FILE = 1, 2, 3
"""Fields of OpMetadata."""

# The tag of the metadata, its size, and the tag of its first field: the type or the file. The
# pattern may occur in other fields too.
_MAY_BE_INCOMPLETE: Final = re.compile(rb":[\x80-\xff]{0,4}[\x00-\x7f][\n\x1a]")


def with_complete_names(module: bytes) -> bytes:
    r"""Return an HloModuleProto with names in the metadata that has types or source files.

    The name of an instruction with a type is ``TYPE:\x1fNAME``. The default name is that of the
    instruction. A damaged message is returned unchanged, because XLA refuses it.
    """
    if _MAY_BE_INCOMPLETE.search(module) is None:
        return module
    try:
        return replaced(memoryview(module), _INSTRUCTIONS, _named)
    except IndexError:
        return module


def _named(instruction: memoryview) -> bytes:
    """Encode an HloInstructionProto as a field of its computation, with a complete name."""
    fields = fields_of(instruction)
    content = bytes(instruction)
    metadata = fields_of(fields[_METADATA][-1]) if _METADATA in fields else {}
    if _OP_TYPE in metadata or (_SOURCE_FILE in metadata and _OP_NAME not in metadata):
        names = metadata.get(_OP_NAME) or fields.get(_NAME) or [memoryview(b"")]
        name = bytes(names[-1])
        if _OP_TYPE in metadata:
            name = bytes(metadata[_OP_TYPE][-1]) + TYPE_END.encode() + name
        # Readers merge the messages of a field, and use the last text of a field.
        content += encoded_field(_METADATA, encoded_field(_OP_NAME, name))
    return encoded_field(_INSTRUCTIONS[-1], content)
