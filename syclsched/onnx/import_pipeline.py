# SPDX-License-Identifier: Apache-2.0
"""Import pipeline of ONNX models: `read` once, then `specialise` for every set of input shapes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

import numpy as np

from syclsched.model.constant import Constant
from syclsched.onnx.array_types import Array, Shapes
from syclsched.onnx.specialised import Specialised

if TYPE_CHECKING:
    from syclsched.frontends.onnx.model_file.onnx_model import Model
    from syclsched.frontends.onnx.rewrites import OptimisedNetwork


def read(source: Any) -> Model:
    """Read and check a model; see `syclsched.onnx.load`."""
    from syclsched.frontends.onnx.model_file.model_reader import read_model

    return read_model(source)


def specialise(
    model: Model,
    shapes: Shapes,
    values: Mapping[str, Array],
    rewrites: bool | tuple[str, ...],
    shared: MutableMapping[str, Constant],
) -> Specialised:
    """Lower a model to tasks for these input shapes."""
    from syclsched.frontends.onnx.index_inputs import find_index_inputs
    from syclsched.frontends.onnx.lowering import lower

    rewritten = _rewritten(model, shapes, values, rewrites)
    lowered = lower(rewritten.network, shared=shared)
    return Specialised(
        graph=lowered.graph,
        shapes=dict(shapes),
        inputs=lowered.inputs,
        outputs=lowered.outputs,
        origins=lowered.origins,
        rewrites=tuple(map(str, rewritten.changes)),
        picked=find_index_inputs(rewritten.network),
    )


def recompute_values(
    model: Model, shapes: Shapes, rewrites: bool | tuple[str, ...], digests: Collection[str]
) -> dict[str, Array]:
    """Recompute constants of a model's tasks; return their values by digest."""
    from syclsched.frontends.onnx.model_file.mapped_files import mapped_location
    from syclsched.model.constant import digest_of

    found = {}
    for array in _rewritten(model, shapes, {}, rewrites).network.constants.values():
        if mapped_location(array) is None or not array.flags.c_contiguous:
            whole = np.ascontiguousarray(array).reshape(array.shape)
            digest = digest_of(whole)
            if digest in digests:
                found[digest] = whole
    return found


def _rewritten(
    model: Model, shapes: Shapes, values: Mapping[str, Array], rewrites: bool | tuple[str, ...]
) -> OptimisedNetwork:
    from syclsched.frontends.onnx.importing import import_model
    from syclsched.frontends.onnx.model_file.mapped_files import check_unchanged
    from syclsched.frontends.onnx.rewrites import DEFAULT_PASSES, rewrite

    check_unchanged(model.graph.initialisers.values())
    open_ones = {name: shape for name, shape in shapes.items() if name not in values}
    network = import_model(model, open_ones, known=values)
    found = rewrite(network, passes=(DEFAULT_PASSES if rewrites else ()) if isinstance(rewrites, bool) else rewrites)
    check_unchanged(model.graph.initialisers.values())  # the file may have changed meanwhile
    return found
