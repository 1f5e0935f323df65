"""Import StableHLO: record every operation again, through the public ops.

Most operations are imported from their schema (`by_schema`). The others have an importer in
`lowering.ops`, or here if they correspond to no op. `scope` iterates over the operations.
"""

from lowering.importer import other_dialects as other_dialects
from lowering.importer.importing import to_computation as to_computation

__all__ = ["to_computation"]
