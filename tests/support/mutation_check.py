# SPDX-License-Identifier: Apache-2.0
"""Outcomes of mutated ONNX models: refused with an error of this package, or computed like other implementations."""

from __future__ import annotations

import multiprocessing
import random
import warnings
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from support.host_evaluation import evaluate
from support.node_cases import RANDOM, differences
from syclsched.errors import SyclschedError, ValueNeededError
from syclsched.frontends.onnx.importing import import_model
from syclsched.frontends.onnx.lowering import lower
from syclsched.frontends.onnx.model_file.model_limits import ModelLimits
from syclsched.frontends.onnx.model_file.model_reader import read_model
from syclsched.frontends.onnx.network import Network
from syclsched.frontends.onnx.rewrites import rewrite

LIMITS = ModelLimits(memory_bytes=1 << 26, folded_bytes=1 << 22)


def check_mutation(model: onnx.ModelProto | bytes, data: Mapping[str, Any], chance: random.Random) -> str:
    """Return the outcome of a model: ``refused: ...``, ``computed``, or ``wrong: ...``; raise any other error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            network, given = _network(model, data, chance)
            lower(rewrite(network).network)
            got = evaluate(network, {name: given[name] for name in network.inputs})
        except SyclschedError as error:
            if not error.where or not error.hint:
                return f"wrong: no place or no way out: {error}"
            return f"refused: {error}"
        return _compared(model, given, got)


def _network(
    model: onnx.ModelProto | bytes, data: Mapping[str, Any], chance: random.Random
) -> tuple[Network, dict[str, Any]]:
    found = read_model(model, limits=LIMITS)
    given = {each.name: _value(each, data.get(each.name), chance) for each in found.inputs}
    shapes = {name: value.shape for name, value in given.items()}
    known: dict[str, Any] = {}
    while True:
        try:
            rest = {name: shape for name, shape in shapes.items() if name not in known}
            return import_model(found, rest, known=known, limits=LIMITS), given
        except ValueNeededError as error:
            if not set(error.inputs) - set(known):
                raise
            known.update({name: given[name] for name in error.inputs})


def _value(declared: Any, value: Any, chance: random.Random) -> Any:
    """Return a test's value if it has the declared type and shape, else another one."""
    dimensions = declared.dimensions
    shape = tuple(value.shape) if value is not None else ()
    if dimensions is not None:
        fits = len(shape) == len(dimensions) and value is not None
        old = shape if fits else (2,) * len(dimensions)
        shape = tuple(d if isinstance(d, int) else n for d, n in zip(dimensions, old, strict=True))
    dtype = np.dtype(declared.dtype or "float32")
    if value is not None and value.shape == shape and value.dtype == dtype:
        return value
    if np.prod(shape, dtype=float) > 1 << 20:
        shape = (2,) * len(shape)
    made = np.random.default_rng(chance.randrange(1 << 30)).standard_normal(shape) * 2
    return np.asarray(made).astype(dtype) if dtype.kind not in "ub" else np.abs(made).astype(dtype)


def _compared(model: onnx.ModelProto | bytes, given: Mapping[str, Any], got: Mapping[str, Any]) -> str:
    """Compare results with those of onnx's reference implementation and, on differences, with ONNX Runtime's."""
    proto = onnx.ModelProto.FromString(model) if isinstance(model, bytes) else model
    if any(node.op_type in RANDOM for node in proto.graph.node):
        return "computed"
    for node in proto.graph.node:
        if node.domain == "ai.onnx":  # the reference implementation has ONNX's own domain by its short name only
            node.domain = ""
    inputs = {each.name for each in proto.graph.input}
    passed = {name: value for name, value in given.items() if name in inputs}
    said, refused = [], 0
    for compute in (_by_reference, _by_runtime):
        try:
            with np.errstate(all="ignore"):
                want = compute(proto, passed)
            if any(np.asarray(value).dtype.names for value in want):
                raise TypeError("types of narrow elements as onnx had them before 1.19")
            for output, value in zip(proto.graph.output, want, strict=True):
                said_shape = _declared_shape(output)
                if got[output.name].shape == said_shape != np.asarray(value).shape:
                    raise ValueError(f"{output.name!r} has not the shape that the model declares")
        except Exception as error:  # they may refuse any model
            said.append(f"{compute.__name__}: {type(error).__name__}: {str(error)[:200]}")
            refused += 1
            continue
        named = dict(zip((each.name for each in proto.graph.output), want, strict=True))
        wrong = [differences(got[name], value) for name, value in named.items()]
        if not any(wrong):
            return f"computed as {compute.__name__}"
        said.append(f"{compute.__name__}: {[each for each in wrong if each]}")
    if refused == len(said) or (refused and not all(value.size for value in passed.values())):
        return f"computed by us alone: {said}"
    return f"wrong: {said}"


def _declared_shape(output: onnx.ValueInfoProto) -> tuple[int, ...] | None:
    """Return the declared shape of an output; None if it is not fully known."""
    kind = output.type.tensor_type
    known = kind.HasField("shape") and all(each.HasField("dim_value") for each in kind.shape.dim)
    return tuple(each.dim_value for each in kind.shape.dim) if known else None


def _by_reference(model: Any, given: Mapping[str, Any]) -> list[Any]:
    made: list[Any] = ReferenceEvaluator(model).run(None, dict(given))
    return made


def _by_runtime(model: Any, given: Mapping[str, Any]) -> list[Any]:
    """Compute with ONNX Runtime in another process: some mutated models crash it."""
    try:
        return _process().submit(_run_by_runtime, model.SerializeToString(), dict(given)).result()
    except BrokenProcessPool:
        _process.cache_clear()
        raise


@cache
def _process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))


def _run_by_runtime(model: bytes, given: dict[str, Any]) -> list[Any]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        made: list[Any] = ort.InferenceSession(model, options).run(None, given)
    except Exception as error:  # ONNX Runtime's own errors cannot be pickled
        raise RuntimeError(f"{type(error).__name__}: {error}") from None
    return made
