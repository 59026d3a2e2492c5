# SPDX-License-Identifier: Apache-2.0
"""Evaluation of networks on the host with NumPy: the baseline for rewrites and devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.frontends.onnx.host_evaluation import Array, evaluate_node
from syclsched.frontends.onnx.model_file.dtypes import numpy_dtype
from syclsched.frontends.onnx.network import Network, compose, cut_to_lengths


def evaluate(network: Network, inputs: Mapping[str, Array]) -> dict[str, Any]:
    """Evaluate a network on the host; return the model's outputs by name."""
    known: dict[str, Array] = dict(network.constants)
    for name in network.inputs:
        value = network.values[name]
        given = np.asarray(inputs[name]) if name in inputs else None
        if given is not None and given.dtype.name == network.elements.get(name):
            given = given.astype(value.dtype)
        if given is None or given.shape != value.shape or given.dtype.name != value.dtype:
            found = "nothing" if given is None else f"{given.dtype} {given.shape}"
            raise ArgumentError(f"expected {value.dtype} {value.shape}, not {found}", where=f"input {name!r}")
        known[name] = given
    last_use = {name: index for index, node in enumerate(network.nodes) for name in node.inputs if name is not None}
    kept = {*network.outputs, *network.constants}
    for index, node in enumerate(network.nodes):
        known.update(evaluate_node(node, network.values, known))
        for used in node.inputs:
            if used is not None and used not in kept and last_use[used] == index:
                known.pop(used, None)
    made = cut_to_lengths({name: known[name] for name in network.outputs}, network.lengths)
    cast = {name: each.astype(numpy_dtype(network.elements.get(name, each.dtype.name))) for name, each in made.items()}
    return compose(cast, network.composition)
