# SPDX-License-Identifier: Apache-2.0
"""Operations of ``counted`` nodes: inputs are cut to their lengths, results are filled up to the largest extent.

A node computes a selection of `selections`, or an ONNX node by onnx's reference implementation. Its last output is the
length of its counted results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from syclsched.errors import ModelError
from syclsched.frontends.onnx.counted.selection_kernels import has_kernel, selection_source
from syclsched.frontends.onnx.counted.selections import SELECTIONS
from syclsched.frontends.onnx.network import CanonicalNode, Value
from syclsched.frontends.onnx.operation_arguments import OperationCall
from syclsched.frontends.onnx.reference import REFERENCE, evaluate_reference
from syclsched.kernels.common import OPENCL_C
from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, Launch, Operation, Parameter, Requirements, Signature, Work

Array = np.ndarray[Any, Any]


def counted_call(node: CanonicalNode, values: Mapping[str, Value]) -> OperationCall:
    """Return the operation of a ``counted`` node and its arguments."""
    at = node.attributes
    operator = at["operator"]
    reads = {f"x{i}": name for i, name in enumerate(node.inputs) if name is not None}
    writes = {f"y{i}": name for i, name in enumerate(node.outputs[:-1])} | {"length": node.outputs[-1]}
    scratch = {}
    if operator == "NonMaxSuppression" and not at["cuts"]:  # the candidates
        scratch["y1"] = Value(f"{node.name} candidates", values[node.inputs[1] or ""].shape[-1:], "int32")
    names = (*writes, *scratch, *reads)
    written = {*writes, *scratch}
    kernel = Implementation(
        "opencl-c",
        "opencl-c",
        lambda signature: selection_source(operator, signature, names, dict(at["options"])),
        lambda signature, limits: Launch((1,), (1,)),
        Requirements(
            backends=OPENCL_C.backends,
            backend_packages=OPENCL_C.backend_packages,
            device_kinds=("cpu",),
            refuses=lambda s: None if has_kernel(operator, s) else "half precision, or another operator",
        ),
        efficiency=0.1,
        revision="2",
    )
    by_host = REFERENCE if "node" in at else "numpy"
    host = Implementation(by_host, "host", lambda _: partial(_run, node), efficiency=0.01)
    operation = Operation(
        name=f"counted {operator}",
        parameters=tuple(Parameter(n, AccessMode.WRITE if n in written else AccessMode.READ) for n in names),
        implementations=(host,) if at["cuts"] or "node" in at else (kernel, host),
        work=_work,
    )
    return OperationCall(operation, reads, writes, scratch)


def _work(signature: Signature) -> Work:
    return Work(flops=10.0 * signature.nbytes, bytes=signature.nbytes, parallelism=1)


def _run(node: CanonicalNode, /, **arrays: Array) -> None:
    at = node.attributes
    given: list[Array | None] = [arrays.get(f"x{i}") for i in range(len(node.inputs))]
    for position, axis, length in at["cuts"]:
        whole, count = given[position], given[length]
        assert whole is not None and count is not None
        given[position] = _first(whole, axis, int(count.reshape(-1)[0]))
    given = given[: at["count"]]
    lengths = set()
    for i, (value, axis) in enumerate(zip(_results(at, given), at["axes"], strict=True)):
        target, value = arrays[f"y{i}"], np.asarray(value)
        if axis is not None:
            lengths.add(value.shape[axis])
            target[...] = 0
            target = _first(target, axis, value.shape[axis])
        if value.shape != target.shape:
            raise ModelError(
                f"its result {i} has shape {value.shape}, and {target.shape} was expected", where=node.name
            )
        target[...] = value
    if len(lengths) > 1:
        raise ModelError(f"its results have different lengths: {sorted(lengths)}", where=node.name)
    arrays["length"][...] = lengths.pop() if lengths else 0


def _results(attributes: Mapping[str, Any], given: Sequence[Array | None]) -> Sequence[Any]:
    if "node" in attributes:
        named = {name: each for name, each in zip(attributes["names"], given, strict=True) if each is not None}
        return evaluate_reference(attributes["node"], attributes["opsets"], named, attributes["results"])
    return SELECTIONS[attributes["operator"]](*given, **dict(attributes["options"]))


def _first(array: Array, axis: int, count: int) -> Array:
    """Return the first elements along an axis, as a view."""
    found: Array = array[(slice(None),) * axis + (slice(count),)]
    return found
