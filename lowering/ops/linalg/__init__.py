"""Linear algebra and Fourier transforms, and the derivatives of decompositions."""

from lowering.ops.linalg import decompositions as decompositions, operations as operations
