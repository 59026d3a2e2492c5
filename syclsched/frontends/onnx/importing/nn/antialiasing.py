# SPDX-License-Identifier: Apache-2.0
"""Resize with antialiasing: a product with a constant matrix along each axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from syclsched.frontends.onnx.importing.gradients.movement import contracted
from syclsched.frontends.onnx.importing.importer_registry import Inputs, UnsupportedFormError
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode
from syclsched.frontends.onnx.reference import evaluate_reference

Array = np.ndarray[Any, Any]


def check_antialiased(b: NetworkBuilder, node: ModelNode, x: str, inputs: Inputs) -> None:
    """Leave forms that are no products with known matrices to the host.

    Of a region with scales, ONNX does not say whether scales are of the region or of the whole.
    """
    is_linear = node.text("mode", "nearest") in ("linear", "cubic")
    is_region = node.text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    region, scales = inputs.optional(1), inputs.optional(2)
    is_known = not is_region or (region is not None and b.known(region) is not None and scales is None)
    is_stretched = node.text("keep_aspect_ratio_policy", "stretch") == "stretch"
    is_open = any(each in b.lengths for each in inputs.given())
    if not is_linear or not is_known or not is_stretched or is_open or b.dtype(x) not in FLOATS or 0 in b.shape(x):
        raise UnsupportedFormError


def antialiased(
    b: NetworkBuilder, node: ModelNode, x: str, scales: Sequence[float], sizes: Sequence[int], roi: Sequence[float]
) -> str:
    """Return a value, or the region of it that ``roi`` gives, resized: each axis by a matrix."""
    rank, beyond = len(sizes), np.zeros((1,) * len(sizes), bool)
    for axis, (count, size) in enumerate(zip(b.shape(x), sizes, strict=True)):
        part = (roi[axis], roi[axis + rank]) if roi else (0.0, 1.0)
        if scales[axis] == 1.0 and count == size and part == (0.0, 1.0):
            continue
        # Elements beyond a picture have a value of their own, beside the rows of the matrix.
        extra = _resized_lines(b, node, np.zeros((1, count)), size, scales[axis], part, 1.0)
        matrix = _resized_lines(b, node, np.eye(count), size, scales[axis], part, 0.0)
        x = contracted(b, x, axis, matrix)
        beyond = beyond | (extra == 1.0).reshape(*(1,) * axis, size, *(1,) * (rank - axis - 1))
    value = node.number("extrapolation_value", 0.0)
    if beyond.any() and value:
        x = b.elementwise(("add", 0, 1), x, b.constant((value * beyond).astype(b.dtype(x))))
    return x


def _resized_lines(
    b: NetworkBuilder, node: ModelNode, lines: Array, size: int, scale: float, part: tuple[float, float], beyond: float
) -> Array:
    """Return lines of elements along one axis resized by onnx's reference implementation.

    Those of unit vectors are the matrix (extent, new extent) of the axis; ``beyond`` is the value beyond the picture.
    """
    from onnx import NodeProto, helper

    proto = NodeProto()
    proto.ParseFromString(node.proto)
    attributes = [each for each in proto.attribute if each.name not in ("axes", "extrapolation_value")]
    attributes.append(helper.make_attribute("extrapolation_value", beyond))
    count = lines.shape[1]
    is_sized = size != int(np.floor(count * scale)) or scale == size / count
    del proto.input[:], proto.output[:], proto.attribute[:]
    proto.attribute.extend(attributes)
    proto.input.extend(["x", "roi", "", "sizes"] if is_sized else ["x", "roi", "scales"])
    proto.output.append("y")
    sized = {"sizes": np.array([len(lines), size])} if is_sized else {"scales": np.array([1.0, scale], np.float32)}
    given = {"x": lines, "roi": np.array([0.0, part[0], 1.0, part[1]]), **sized}
    (made,) = evaluate_reference(proto.SerializeToString(), b.opsets, given, ("y",))
    return np.asarray(made, np.float64)
