"""Programs for readers that lack operations: portable expansions.

`expanded` replaces operations of a module by calls of functions, which compute the same with other
operations. There are three kinds of expansions:

- composites and operations of CHLO are replaced by their decompositions, those of jaxlib included;
- `linalg`, `normalization` and `elementwise` have functions that record an algorithm
  with public ops; the recorded computation is lowered and pasted;
- some rewrites of `legalize`, such as that of `mhlo.topk`.
"""

from lowering.portable import (
    elementwise as elementwise,
    linalg as linalg,
    normalization as normalization,
)
from lowering.portable.expanding import expanded

__all__ = ["expanded"]
