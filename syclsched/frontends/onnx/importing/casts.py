# SPDX-License-Identifier: Apache-2.0
"""Importers of Cast and CastLike."""

from __future__ import annotations

from collections.abc import Sequence

from syclsched.frontends.onnx.dtypes import DTYPES, described
from syclsched.frontends.onnx.importing.builder import Builder
from syclsched.frontends.onnx.importing.registry import given, imports
from syclsched.frontends.onnx.model import ModelNode


@imports("Cast")
def cast(b: Builder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import Cast."""
    target = node.integer("to")
    if target not in DTYPES:
        raise b.wrong(f"a cast to {described(target)}, which is not supported")
    return [b.cast(given(b, inputs, 0, "input"), DTYPES[target])]


@imports("CastLike")
def cast_like(b: Builder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import CastLike."""
    return [b.cast(given(b, inputs, 0, "input"), b.dtype(given(b, inputs, 1, "target_type")))]
