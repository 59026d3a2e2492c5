# SPDX-License-Identifier: Apache-2.0
"""Evaluation of the parts of a model on text and maps, on the host, with onnx's reference implementation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from syclsched.errors import ModelError
from syclsched.frontends.onnx.model_file.onnx_model import HostPart
from syclsched.frontends.onnx.model_file.text_partition import inferred_outputs
from syclsched.frontends.onnx.reference_loops import loop_operators
from syclsched.frontends.onnx.text_operators import text_operators


def evaluate_part(part: HostPart, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs of a part by name: arrays, of text in the dtype object, lists, or maps."""
    evaluator = _evaluator(part)
    try:
        with np.errstate(all="ignore"):
            made = evaluator.run(None, {name: values[name] for name in part.inputs})
    except Exception as error:
        raise ModelError(
            f"the host cannot compute the part on text ({', '.join(part.labels)}): {type(error).__name__}: {error}",
            where=part.where,
            hint="Check the texts that are given",
        ) from error
    return {name: _as_array(value) for name, value in zip(part.outputs, made, strict=True)}


def _as_array(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value, object) if value.dtype.kind in "SU" else np.asarray(value)
    return [_as_array(each) for each in value] if isinstance(value, list) else value


@lru_cache(maxsize=64)
def _evaluator(part: HostPart) -> Any:
    import onnx
    from onnx.reference import ReferenceEvaluator

    try:
        return ReferenceEvaluator(
            onnx.ModelProto.FromString(part.model), new_ops=[*text_operators(), *loop_operators()]
        )
    except Exception as error:
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(
            f"onnx's reference implementation cannot take the part on text ({', '.join(part.labels)}): {line}",
            where=part.where,
        ) from error


def result_shapes(part: HostPart, shapes: Mapping[str, Sequence[int]], dtypes: Mapping[str, str]) -> dict[str, Any]:
    """Return the shapes of a part's results for shapes of its inputs: by inference, else for empty texts and zeros."""
    import onnx

    found = {}
    for name, value in inferred_outputs(onnx, part, shapes).items():
        tensor = value.type.tensor_type
        if tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim):
            found[name] = tuple(d.dim_value for d in tensor.shape.dim)
    if all(name in found for name in part.outputs):
        return found
    empty = {
        name: np.full(shapes[name], "", object) if dtypes[name] == "text" else np.zeros(shapes[name], dtypes[name])
        for name in part.inputs
    }
    made = evaluate_part(part, empty)
    return {name: value.shape for name, value in made.items() if hasattr(value, "shape")} | found
