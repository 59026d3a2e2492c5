# SPDX-License-Identifier: Apache-2.0
"""Processor time until a compiled model has results for shapes of its inputs that it has not had before.

    python benchmarks/new_shapes.py [--lengths 64 96 50 33 77 120]

The model is an encoder of the size of BERT's base model with texts of several lengths. Each is called twice: what the
second call takes is the model's own work, and the rest of the first one is the price of a new shape.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
from common import median_and_range, parser, print_table
from onnx_models import default_folder, ours

from syclsched.testing.models import cached


def main() -> None:
    """Measure each length."""
    lengths = parser(__doc__, lengths=[64, 96, 50, 33, 77, 120]).parse_args().lengths
    compiled = ours(cached("bert", default_folder()), None)
    names = [each.name for each in compiled.inputs]
    rows = []
    for length in lengths:
        inputs = dict.fromkeys(names, np.ones((1, length), np.int64))
        took = []
        for _ in range(2):
            begun = time.process_time()
            compiled(inputs)
            took.append(time.process_time() - begun)
        rows.append((length, *took, took[0] - took[1]))
    lines = [tuple(f"{value:.2f}" if n else str(value) for n, value in enumerate(row)) for row in rows]
    print_table("Processor time, s", ("length", "first call", "second call", "the new shape"), lines, ["length"])
    others = [row[3] for row in rows[1:]]
    print(f"after the first: {median_and_range(others, 2, 0)}, mean {statistics.mean(others):.2f}")


if __name__ == "__main__":
    main()
