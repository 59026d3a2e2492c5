# SPDX-License-Identifier: Apache-2.0
"""Tasks of well-known networks before and after the rewrites: the table in docs/explanation/onnx-rewrites.md.

Usage: ``python benchmarks/onnx_rewrites.py [--report NETWORK]``
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from common import parser

from syclsched.frontends.onnx.importing import import_model
from syclsched.frontends.onnx.model_file.model_reader import read_model
from syclsched.frontends.onnx.network import Network
from syclsched.frontends.onnx.rewrites import rewrite
from syclsched.testing.models import LIGHT_MODELS, encoder_model, light_model

#: Input shape of the encoder: one text of 128 tokens.
TEXT = dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), (1, 128))


def networks(name: str) -> tuple[int, Network]:
    """Return the number of a model's nodes, and its network."""
    model: Any = encoder_model() if name == "bert" else light_model(name)
    return len(model.graph.node), import_model(read_model(model), TEXT if name == "bert" else {})


def tasks(network: Network) -> Counter[str]:
    """Count the nodes that are tasks, by kind."""
    return Counter(node.kind for node in network.nodes if node.kind != "reshape")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--report", metavar="NETWORK", help="what each rewrite did to one network (or bert)")
    asked = options.parse_args().report
    if asked:
        print(rewrite(networks(asked)[1]).report)
        return
    print("| Network | ONNX nodes | Tasks before | after | What they are | Seconds |")
    print("|---|---|---|---|---|---|")
    for name in (*LIGHT_MODELS, "bert"):
        nodes, network = networks(name)
        start = time.perf_counter()
        done = rewrite(network)
        took = time.perf_counter() - start
        after = tasks(done.network)
        kinds = ", ".join(f"{count} {kind}" for kind, count in after.most_common())
        print(f"| {name} | {nodes} | {tasks(network).total()} | {after.total()} | {kinds} | {took:.2f} |")


if __name__ == "__main__":
    main()
