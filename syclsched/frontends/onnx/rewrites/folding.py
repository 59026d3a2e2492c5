# SPDX-License-Identifier: Apache-2.0
"""Constant folding."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from syclsched.frontends.onnx.host_evaluation import evaluate
from syclsched.frontends.onnx.network import CanonicalNode, Network
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft

#: A node is folded if its result is at most this many times as large as its inputs, or at most this many bytes.
_GROWTH: Final = 2
_FREE_BYTES: Final = 1 << 16


def fold_constants(draft: NetworkDraft) -> None:
    """Evaluate the nodes whose inputs are all constants."""
    for node in draft.each():
        outputs = [name for name in node.outputs if name is not None]
        if node.kind == "reference" or any(draft.is_output(name) for name in outputs):
            continue
        if not all(name is None or name in draft.constants for name in node.inputs):
            continue
        given = sum(draft.constants[name].nbytes for name in node.inputs if name is not None)
        made = sum(_bytes(draft, name) for name in outputs)
        if made > max(_GROWTH * given, _FREE_BYTES):
            continue
        for name, array in _computed(draft, node).items():
            held = draft.add_constant(array, name)
            for reader in draft.readers(name):
                draft.change(reader, inputs=tuple(held if each == name else each for each in reader.inputs))
        draft.remove(node)
        draft.record_change("computed beforehand", node.name)


def _bytes(draft: NetworkDraft, name: str) -> int:
    value = draft.values[name]
    return int(np.prod(value.shape, dtype=np.int64)) * np.dtype(value.dtype).itemsize


def _computed(draft: NetworkDraft, node: CanonicalNode) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
    outputs = tuple(name for name in node.outputs if name is not None)
    names = [name for name in (*node.inputs, *node.outputs) if name is not None]
    alone = Network(
        name=node.name,
        inputs=(),
        outputs=outputs,
        values={name: draft.values[name] for name in names},
        constants={name: draft.constants[name] for name in node.inputs if name is not None},
        nodes=(replace(node),),
    )
    return dict(evaluate(alone, {}))
