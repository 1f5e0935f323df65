"""Decompositions of matrices, and functions that use them, such as solvers.

Matrices are the last two dimensions of an array; other dimensions are a batch. CPUs run the
decompositions with LAPACK, and NVIDIA's GPUs with cuSOLVER; other platforms and StableHLO's
interpreter run a portable algorithm.
"""

from builder.lib.linalg.eigenvalues import eigh as eigh, eigvalsh as eigvalsh
from builder.lib.linalg.norms import norm as norm
from builder.lib.linalg.orthogonal import (
    product_of_elementary_householder_reflectors as product_of_elementary_householder_reflectors,
    qr as qr,
    qr_decomposition as qr_decomposition,
)
from builder.lib.linalg.singular_values import (
    matrix_rank as matrix_rank,
    pinv as pinv,
    svd as svd,
    svdvals as svdvals,
)
from builder.lib.linalg.solving import (
    cholesky_solve as cholesky_solve,
    inv as inv,
    lstsq as lstsq,
    solve as solve,
)
from builder.lib.linalg.triangular import (
    det as det,
    logdet as logdet,
    lu as lu,
    slogdet as slogdet,
)
from builder.lib.linalg.tridiagonal import (
    tridiagonal_mat_mul as tridiagonal_mat_mul,
    tridiagonal_solver as tridiagonal_solver,
)
