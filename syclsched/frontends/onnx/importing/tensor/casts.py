# SPDX-License-Identifier: Apache-2.0
"""Importers of Cast and CastLike."""

from __future__ import annotations

from collections.abc import Sequence

from syclsched.frontends.onnx.importing.importer_registry import given, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.dtypes import DTYPES, element_type_name
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode


@imports("Cast")
def cast(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import Cast."""
    target = node.integer("to")
    if target not in DTYPES:
        raise b.wrong(f"a cast to {element_type_name(target)}, which is not supported")
    return [b.cast(given(b, inputs, 0, "input"), DTYPES[target])]


@imports("CastLike")
def cast_like(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import CastLike."""
    return [b.cast(given(b, inputs, 0, "input"), b.dtype(given(b, inputs, 1, "target_type")))]
