"""Functions that record several ops: XLA's client library, and others that array programs need.

All functions record public ops only. A function that exists in XLA's client library
(`xla/hlo/builder/lib`) has the same name, in snake_case, and the same order of arguments. Element
types are never promoted, and arrays are broadcast only where a function documents it.

``from builder import lib`` offers all functions (``lib.zeros_like``). Each family is a module:
``from builder.lib import linalg``.
"""

import typing as _typing

from builder.lib.attention import (
    dot_product_attention as dot_product_attention,
    rotary_embedding as rotary_embedding,
)
from builder.lib.constants import (
    constant_r0_with_type as constant_r0_with_type,
    epsilon as epsilon,
    full_like as full_like,
    max_finite_value as max_finite_value,
    max_value as max_value,
    min_finite_value as min_finite_value,
    min_positive_normal_value as min_positive_normal_value,
    min_value as min_value,
    nan_value as nan_value,
    one as one,
    scalar_like as scalar_like,
    zero as zero,
    zeros as zeros,
    zeros_like as zeros_like,
)
from builder.lib.convolution import (
    TensorFormat as TensorFormat,
    conv as conv,
)
from builder.lib.cumulative import (
    cumlogsumexp as cumlogsumexp,
    cummax as cummax,
    cummin as cummin,
    cumprod as cumprod,
    cumsum as cumsum,
)
from builder.lib.dynamic import (
    dynamic_conditional as dynamic_conditional,
)
from builder.lib.initializers import (
    glorot_normal as glorot_normal,
    glorot_uniform as glorot_uniform,
    he_normal as he_normal,
    he_uniform as he_uniform,
    orthogonal as orthogonal,
)
from builder.lib.linalg import (
    cholesky_solve as cholesky_solve,
    det as det,
    eigh as eigh,
    eigvalsh as eigvalsh,
    inv as inv,
    logdet as logdet,
    lstsq as lstsq,
    lu as lu,
    matrix_rank as matrix_rank,
    norm as norm,
    pinv as pinv,
    product_of_elementary_householder_reflectors as product_of_elementary_householder_reflectors,
    qr as qr,
    qr_decomposition as qr_decomposition,
    slogdet as slogdet,
    solve as solve,
    svd as svd,
    svdvals as svdvals,
    tridiagonal_mat_mul as tridiagonal_mat_mul,
    tridiagonal_solver as tridiagonal_solver,
)
from builder.lib.loops import (
    assemble_tuple as assemble_tuple,
    disassemble_tuple as disassemble_tuple,
    for_each_index as for_each_index,
    while_loop_helper as while_loop_helper,
)
from builder.lib.losses import (
    binary_cross_entropy as binary_cross_entropy,
    huber as huber,
    mse as mse,
)
from builder.lib.math import (
    is_inf as is_inf,
    is_nan as is_nan,
    is_neg_inf as is_neg_inf,
    is_neg_zero as is_neg_zero,
    is_pos_inf as is_pos_inf,
    maybe_conjugate as maybe_conjugate,
    next_after as next_after,
    round_to_even as round_to_even,
)
from builder.lib.matrix import (
    batch_dot as batch_dot,
    einsum as einsum,
    get_diagonal_mask as get_diagonal_mask,
    get_matrix_diagonal as get_matrix_diagonal,
    get_matrix_diagonal_via_gather as get_matrix_diagonal_via_gather,
    lower_triangle as lower_triangle,
    matmul as matmul,
    maybe_transpose_in_minor_dims as maybe_transpose_in_minor_dims,
    set_matrix_diagonal as set_matrix_diagonal,
    symmetrize as symmetrize,
    transpose_in_minor_dims as transpose_in_minor_dims,
    triangle as triangle,
    triangle_mask as triangle_mask,
    upper_triangle as upper_triangle,
)
from builder.lib.nn import (
    cross_entropy as cross_entropy,
    dropout as dropout,
    gelu as gelu,
    layer_norm as layer_norm,
    linear as linear,
    log_softmax as log_softmax,
    relu as relu,
    rms_norm as rms_norm,
    sigmoid as sigmoid,
    silu as silu,
    softmax as softmax,
    stop_gradient as stop_gradient,
)
from builder.lib.pooling import (
    SpatialDimensionOutputSizeAndPadding as SpatialDimensionOutputSizeAndPadding,
    avg_pool as avg_pool,
    avg_pool_grad as avg_pool_grad,
    conv_grad_extract_and_verify_dimension as conv_grad_extract_and_verify_dimension,
    make_spatial_padding as make_spatial_padding,
    max_pool as max_pool,
)
from builder.lib.prng import (
    RngOutput as RngOutput,
    box_muller_transform as box_muller_transform,
    concat_scalars as concat_scalars,
    convert_random_bits_to_uniform_floating_point as convert_random_bits_to_uniform_floating_point,
    normal_floating_point_distribution as normal_floating_point_distribution,
    philox_bit_generator as philox_bit_generator,
    philox_increase_counter as philox_increase_counter,
    scramble_philox_key as scramble_philox_key,
    three_fry_bit_generator as three_fry_bit_generator,
    uniform_floating_point_distribution as uniform_floating_point_distribution,
    uniform_int_distribution as uniform_int_distribution,
)
from builder.lib.quantize import (
    QuantizedRange as QuantizedRange,
    dequantize as dequantize,
    pack_to_uint32 as pack_to_uint32,
)
from builder.lib.random import (
    bernoulli as bernoulli,
    categorical as categorical,
    exponential as exponential,
    fold_in as fold_in,
    gumbel as gumbel,
    key_array as key_array,
    normal as normal,
    permutation as permutation,
    randint as randint,
    random_bits as random_bits,
    random_key as random_key,
    split_key as split_key,
    truncated_normal as truncated_normal,
    uniform as uniform,
)
from builder.lib.reductions import (
    all as all,
    any as any,
    arg_max as arg_max,
    arg_min as arg_min,
    logsumexp as logsumexp,
    max as max,
    mean as mean,
    min as min,
    prod as prod,
    std as std,
    sum as sum,
    var as var,
)
from builder.lib.registry import (
    FUNCTIONS as FUNCTIONS,
    LibraryFunction as LibraryFunction,
)
from builder.lib.shaping import (
    broadcast_to as broadcast_to,
    clip as clip,
    expand_dims as expand_dims,
    eye as eye,
    flip as flip,
    indices_along as indices_along,
    linspace as linspace,
    one_hot as one_hot,
    put_along_axis as put_along_axis,
    repeat as repeat,
    roll as roll,
    split as split,
    squeeze as squeeze,
    stack as stack,
    take as take,
    take_along_axis as take_along_axis,
    tile as tile,
    tri as tri,
    where as where,
)
from builder.lib.slicing import (
    dynamic_slice_in_minor_dims as dynamic_slice_in_minor_dims,
    dynamic_update_slice_in_minor_dims as dynamic_update_slice_in_minor_dims,
    slice_in_minor_dims as slice_in_minor_dims,
    torch_gather as torch_gather,
    torch_index_select as torch_index_select,
    torch_scatter_dense as torch_scatter_dense,
    update_slice as update_slice,
    update_slice_in_minor_dims as update_slice_in_minor_dims,
)
from builder.lib.sorting import (
    approx_top_k as approx_top_k,
    approx_top_k_fallback as approx_top_k_fallback,
    approx_top_k_reduction_output_size as approx_top_k_reduction_output_size,
    argsort as argsort,
    create_scalar_comparison_computation as create_scalar_comparison_computation,
    create_scalar_gt_computation as create_scalar_gt_computation,
    create_scalar_lt_computation as create_scalar_lt_computation,
    top_k_with_partitions as top_k_with_partitions,
)
from builder.lib.special import (
    bessel_i0e as bessel_i0e,
    bessel_i1e as bessel_i1e,
    digamma as digamma,
    erf_inv as erf_inv,
    erfc as erfc,
    igamma as igamma,
    igamma_grad_a as igamma_grad_a,
    igammac as igammac,
    lgamma as lgamma,
    polygamma as polygamma,
    random_gamma_grad as random_gamma_grad,
    regularized_incomplete_beta as regularized_incomplete_beta,
    zeta as zeta,
)

if not _typing.TYPE_CHECKING:
    # Without the families: importing a module makes it an attribute of its package.
    __all__ = sorted(
        name
        for name, value in globals().items()
        if not name.startswith("_") and not isinstance(value, type(_typing))
    )

    def __getattr__(name):
        from builder.support.imports import extension

        raise extension("builder.unknown_names", "missing_name_of_library", name, FUNCTIONS)

    def __dir__():
        return __all__
