# SPDX-License-Identifier: Apache-2.0
"""The road from a file to tasks, in two steps: `read`, once; and `specialise`, for every set of input shapes."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from syclsched.model.constant import Constant
from syclsched.onnx.specialised import Array, Shapes, Specialised

if TYPE_CHECKING:
    from syclsched.frontends.onnx.model import Model


def read(source: Any) -> Model:
    """Return a model that was read and checked; see `syclsched.onnx.load`."""
    from syclsched.frontends.onnx.reading import read_model

    return read_model(source)


def specialise(
    model: Model,
    shapes: Shapes,
    values: Mapping[str, Array],
    rewrites: bool | tuple[str, ...],
    shared: MutableMapping[str, Constant],
) -> Specialised:
    """Return a model's tasks for shapes of its inputs.

    Parameters
    ----------
    model : Model
        From `read`.
    shapes : Mapping[str, tuple of int]
        Of every input.
    values : Mapping[str, numpy.ndarray]
        Of inputs that shapes follow from.
    rewrites : bool or tuple of str
        Which there are to be.
    shared : MutableMapping[str, Constant]
        Constants of the model for other shapes; see `syclsched.frontends.onnx.lowering.lower`.
    """
    from syclsched.frontends.onnx.importing import import_model
    from syclsched.frontends.onnx.lowering import lower
    from syclsched.frontends.onnx.picking import picked
    from syclsched.frontends.onnx.rewrites import DEFAULT_PASSES, rewrite

    open_ones = {name: shape for name, shape in shapes.items() if name not in values}
    network = import_model(model, open_ones, known=values)
    rewritten = rewrite(
        network, passes=(DEFAULT_PASSES if rewrites else ()) if isinstance(rewrites, bool) else rewrites
    )
    lowered = lower(rewritten.network, shared=shared)
    return Specialised(
        graph=lowered.graph,
        shapes=dict(shapes),
        inputs=lowered.inputs,
        outputs=lowered.outputs,
        origins=lowered.origins,
        rewrites=tuple(map(str, rewritten.deeds)),
        picked=picked(rewritten.network),
    )
