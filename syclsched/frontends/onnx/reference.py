# SPDX-License-Identifier: Apache-2.0
"""Host operations that run onnx's reference implementation, for operators without a device implementation."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, Final

from syclsched.errors import ModelError, RunCancelledError
from syclsched.frontends.onnx.model_file.dtypes import numpy_dtype
from syclsched.frontends.onnx.network import CanonicalNode, Network
from syclsched.frontends.onnx.reference_loops import loop_operators
from syclsched.frontends.onnx.reference_pooling import max_pool_operator
from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, Operation, Parameter, Signature, Work

#: Name of the implementation in plans and reports.
REFERENCE: Final = "reference"
#: Operators with random results: never folded at import, nor run again to recompute a lost value.
RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
)


def host_operators(network: Network) -> tuple[str, ...]:
    """Return the ONNX nodes that run on the host with onnx's reference implementation, as ``"NonZero node_7"``."""
    by_reference = [node for node in network.nodes if node.kind == "reference" or "node" in node.attributes]
    return tuple(label for node in by_reference for label in (node.origin or (node.name,)))


def reference_operation(node: CanonicalNode) -> Operation:
    """Return the operation of a ``reference`` node: parameters ``y0``, ... (written) and ``x0``, ..."""
    names: tuple[str, ...] = node.attributes["names"]
    results = tuple(
        result for result, wanted in zip(node.attributes["results"], node.outputs, strict=True) if wanted is not None
    )
    operator = node.origin[0].split(" ", 1)[0] if node.origin else "operator"
    evaluator = partial(_evaluator, node.attributes["node"], node.attributes["opsets"], names, results)
    label, elements = (node.origin or (node.name,))[0], node.attributes["elements"]
    return Operation(
        name=f"reference {operator}",
        parameters=(
            *(Parameter(f"y{i}", AccessMode.WRITE) for i in range(len(results))),
            *(Parameter(f"x{i}", AccessMode.READ) for i in range(len(names))),
        ),
        implementations=(
            Implementation(
                REFERENCE, "host", lambda _: partial(_run, evaluator, names, elements, results, label), efficiency=0.01
            ),
        ),
        work=_work,
        pure=operator not in RANDOM,
    )


def evaluate_reference(
    proto: bytes, opsets: tuple[tuple[str, int], ...], given: dict[str, Any], results: tuple[str, ...]
) -> list[Any]:
    """Evaluate a node with onnx's reference implementation."""
    import numpy as np

    with np.errstate(all="ignore"):
        made: list[Any] = _evaluator(proto, opsets, tuple(given), results).run(None, given)
    return made


def _work(signature: Signature) -> Work:
    return Work(flops=0.0, bytes=signature.nbytes, parallelism=1)


def _run(
    evaluator: Any,
    names: tuple[str, ...],
    elements: tuple[str, ...],
    results: tuple[str, ...],
    label: str,
    /,
    **arrays: Any,
) -> None:
    import numpy as np

    given = {
        name: arrays[f"x{i}"].astype(numpy_dtype(element), copy=False)
        for i, (name, element) in enumerate(zip(names, elements, strict=True))
    }
    try:
        with np.errstate(all="ignore"):
            made = evaluator().run(None, given)
    except RunCancelledError:
        raise
    except Exception as error:
        raise ModelError(
            f"onnx's reference implementation cannot compute it: {type(error).__name__}: {error}", where=f"node {label}"
        ) from error
    for i, (name, value) in enumerate(zip(results, made, strict=True)):
        target, value = arrays[f"y{i}"], np.asarray(value)
        if value.shape != target.shape:
            what = f"its result {name!r} has shape {value.shape}, and {target.shape} was expected"
            raise ModelError(what, where=f"node {label}")
        target[...] = value.astype(target.dtype, copy=False)


@lru_cache(maxsize=256)
def _evaluator(
    proto: bytes, opsets: tuple[tuple[str, int], ...], names: tuple[str, ...], results: tuple[str, ...]
) -> Any:
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper
    from onnx.reference import ReferenceEvaluator

    node = onnx.NodeProto()
    node.ParseFromString(proto)
    before, constants = [], []
    _adapt_to_newest_opset(node, dict(opsets).get("", 1))
    if node.op_type == "NonMaxSuppression":
        # The missing inputs (number of boxes, overlap threshold) default to 0, but the reference implementation fails
        # without them.
        node.input.extend([""] * (4 - len(node.input)))
        for place, zero in ((2, np.array([0])), (3, np.array([0.0], np.float32))):
            if not node.input[place]:
                node.input[place] = f"input {place} left out"
                constants.append(numpy_helper.from_array(zero, node.input[place]))
        # TensorFlow's exporter writes them as scalars, which the reference implementation does not accept.
        constants.append(numpy_helper.from_array(np.array([1]), "one"))
        for place in (place for place in range(2, len(node.input)) if node.input[place]):
            before.append(helper.make_node("Reshape", [node.input[place], "one"], [f"input {place}"]))
            node.input[place] = f"input {place}"
    graph = helper.make_graph(
        [*before, node],
        "node",
        [onnx.ValueInfoProto(name=name) for name in names],
        [onnx.ValueInfoProto(name=name) for name in results],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*each) for each in opsets])
    corrected = [*loop_operators()] if dict(opsets).get("", 1) >= 9 else []  # before, Scan had another form
    if node.op_type == "MaxPool":
        corrected.append(max_pool_operator())
    return ReferenceEvaluator(model, new_ops=corrected)


def _adapt_to_newest_opset(node: Any, opset: int) -> None:
    """Adapt a node to the newest opset, the only one the reference implementation has for these operators."""
    from onnx import helper

    if node.op_type == "GridSample":
        for attribute in node.attribute:
            if attribute.name == "mode":
                attribute.s = {b"bilinear": b"linear", b"bicubic": b"cubic"}.get(attribute.s, attribute.s)
    elif node.op_type == "RoiAlign" and opset < 16:
        node.attribute.append(helper.make_attribute("coordinate_transformation_mode", "output_half_pixel"))
