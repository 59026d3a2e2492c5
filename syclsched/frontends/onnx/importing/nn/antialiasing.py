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
    """Leave forms that are no products with matrices to the host: regions, policies, integers, and nearest elements."""
    is_linear = node.text("mode", "nearest") in ("linear", "cubic")
    is_region = node.text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    is_stretched = node.text("keep_aspect_ratio_policy", "stretch") == "stretch"
    is_open = any(each in b.lengths for each in inputs.given())
    if not is_linear or is_region or not is_stretched or is_open or b.dtype(x) not in FLOATS or 0 in b.shape(x):
        raise UnsupportedFormError


def antialiased(b: NetworkBuilder, node: ModelNode, x: str, scales: Sequence[float], sizes: Sequence[int]) -> str:
    """Return a value resized: each axis by a matrix whose rows are the resized unit vectors."""
    for axis, (count, size) in enumerate(zip(b.shape(x), sizes, strict=True)):
        if scales[axis] != 1.0 or count != size:
            x = contracted(b, x, axis, _matrix(b, node, count, size, scales[axis]))
    return x


def _matrix(b: NetworkBuilder, node: ModelNode, count: int, size: int, scale: float) -> Array:
    """Return the matrix (extent, new extent) of one axis, by onnx's reference implementation."""
    from onnx import NodeProto

    proto = NodeProto()
    proto.ParseFromString(node.proto)
    attributes = [each for each in proto.attribute if each.name != "axes"]
    is_sized = size != int(np.floor(count * scale)) or scale == size / count
    del proto.input[:], proto.output[:], proto.attribute[:]
    proto.attribute.extend(attributes)
    proto.input.extend(["x", "", "", "sizes"] if is_sized else ["x", "", "scales"])
    proto.output.append("y")
    sized = {"sizes": np.array([count, size])} if is_sized else {"scales": np.array([1.0, scale], np.float32)}
    (made,) = evaluate_reference(proto.SerializeToString(), b.opsets, {"x": np.eye(count), **sized}, ("y",))
    return np.asarray(made, np.float64)
