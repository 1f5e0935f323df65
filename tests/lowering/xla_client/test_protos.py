"""The mutable attribute values of `xla_client`."""

from __future__ import annotations

import numpy as np
import pytest
from jax import lax
from tables import each_row

import builder as xb
from lowering import xla_client as xc


@pytest.mark.parametrize("specification", [("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "CWNH")])
def test_convolution_dimension_numbers(specification: tuple[str, str, str]) -> None:
    numbers = xc.make_convolution_dimension_numbers(specification, 2)
    # jax lists the batch, the feature and then the spatial dimensions; those of rhs begin with O, I
    expected = lax.conv_dimension_numbers((1, 1, 1, 1), (1, 1, 1, 1), specification)
    lhs = (numbers.input_batch_dimension, numbers.input_feature_dimension)
    rhs = (numbers.kernel_output_feature_dimension, numbers.kernel_input_feature_dimension)
    out = (numbers.output_batch_dimension, numbers.output_feature_dimension)
    assert (*lhs, *numbers.input_spatial_dimensions) == expected.lhs_spec
    assert (*rhs, *numbers.kernel_spatial_dimensions) == expected.rhs_spec
    assert (*out, *numbers.output_spatial_dimensions) == expected.out_spec
    assert xc.make_convolution_dimension_numbers(numbers, 2) is numbers


def test_default_convolution_dimension_numbers() -> None:
    default = xc.make_convolution_dimension_numbers(None, 2)
    assert default == xc.make_convolution_dimension_numbers(("NCHW", "OIHW", "NCHW"), 2)


@each_row("padding", ["same", "VALID", xc.PaddingType.SAME])
def test_padding(padding: xc.PaddingType | str) -> None:
    sizes, window, strides = (7, 10, 3), (3, 4, 1), (2, 3, 1)
    name = padding.upper() if isinstance(padding, str) else padding.name
    expected = lax.padtype_to_pads(sizes, window, strides, name)
    assert xc.window_padding_type_to_pad_values(padding, sizes, window, strides) == expected


def test_unknown_padding() -> None:
    with pytest.raises(ValueError, match="expected 'VALID' or 'SAME', got 'OTHER'"):
        xc.window_padding_type_to_pad_values("OTHER", (1,), (1,), (1,))
    with pytest.raises(TypeError, match="padding_type must be"):
        xc.window_padding_type_to_pad_values(3, (1,), (1,), (1,))  # type: ignore[arg-type]


def test_padding_config() -> None:
    config = xc.make_padding_config([(1, 2, 3)])
    assert config.new() == xb.PaddingConfig([(1, 2, 3)])  # type: ignore[arg-type]
    assert xc.make_padding_config(config) is config


def test_precision_config() -> None:
    config = xc.PrecisionConfig()
    assert config.new() is None
    config.operand_precision.extend([config.Precision.HIGH, 2])  # type: ignore[list-item]
    assert config.new() == (xb.Precision.HIGH, xb.Precision.HIGHEST)
    config.operand_precision.append(config.Precision.HIGH)
    with pytest.raises(TypeError, match="must have two members"):
        config.new()


def test_result_accuracy() -> None:
    accuracy = xc.ResultAccuracy()
    assert accuracy.new() is None
    accuracy.mode = xc.ResultAccuracyMode.HIGHEST
    assert accuracy.new() == xb.ResultAccuracy(mode="HIGHEST")
    accuracy.ulps = 2
    assert accuracy.new() == xb.ResultAccuracy(ulps=2)
    b = xc.XlaBuilder("accurate")
    x = xc.ops.Parameter(b, 0, xc.Shape("f32[2]"))
    assert xc.ops.Exp(x, accuracy).attributes["result_accuracy"].ulps == 2
    with pytest.raises(TypeError, match="result_accuracy must be None"):
        xc.ops.Erf(x, accuracy)


def test_replica_groups() -> None:
    assert xc.make_replica_groups(None) == []
    groups = xc.make_replica_groups(np.array([[0, 1], [2, 3]]))
    assert [group.replica_ids for group in groups] == [[0, 1], [2, 3]]


def test_channel_handle() -> None:
    handle = xc.ChannelHandle(handle=3)
    assert handle.new() == 3
    handle.type = xc._xla.ChannelHandle_ChannelType.HOST_TO_DEVICE
    assert handle.new() == xb.ChannelHandle(3, xb.ChannelType.HOST_TO_DEVICE)


def test_dimension_numbers_are_converted() -> None:
    dot = xc.make_dot_dimension_numbers((([2], [1]), ([0], [0])))
    assert dot.new() == xb.DotDimensionNumbers([2], [1], [0], [0])  # type: ignore[arg-type]
    assert xc.make_dot_dimension_numbers(dot) is dot
    gather = xc.GatherDimensionNumbers([1], [0], [0], 1)
    assert gather.new() == xb.GatherDimensionNumbers((1,), (0,), (0,), 1)
    scatter = xc.ScatterDimensionNumbers([1], [0], [0], 1)
    assert scatter.new() == xb.ScatterDimensionNumbers((1,), (0,), (0,), 1)
