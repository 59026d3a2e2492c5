# SPDX-License-Identifier: Apache-2.0
"""Processor time of a compiled model until its results for new shapes of its inputs.

    python benchmarks/new_shapes.py [--lengths 64 96 50 33 77 120] [--layers 12] [--width 768] [--bucket 0]
                                    [--prompts 0] [--small 0]

The model is an encoder, by default of the size of BERT's base model, with texts of several lengths, or with ``--prompts
1`` a decoder of width 256 with carried caches and prompts of these lengths. Each is called twice: the second call takes
the model's own time, and the rest of the first one is the cost of a new shape. With a bucket, calls run in plans for
multiples of that many tokens. With ``--small 1`` the models are those of ``length_models.py``.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from common import format_range, parser, print_table
from length_models import MODELS, inputs
from onnx_models import default_folder

import syclsched
from syclsched.testing.decoder_model import decoder_model
from syclsched.testing.models import cached, encoder_model


def model_file(layers: int, width: int, folder: str, prompts: int) -> Path:
    """Return the file of an encoder or decoder with a number of layers."""
    if prompts:
        import onnx

        path = Path(folder) / "decoder.onnx"
        onnx.save(decoder_model(layers, 256, 4, vocabulary=1000, positions=256), str(path))
        return path
    if (layers, width) == (12, 768):
        return cached("bert", default_folder())
    import onnx

    path = Path(folder) / "encoder.onnx"
    onnx.save(encoder_model(layers, width, max(1, width // 64)), str(path))
    return path


def main() -> None:
    """Measure each length."""
    given = parser(
        __doc__, lengths=[64, 96, 50, 33, 77, 120], layers=12, width=768, bucket=0, prompts=0, small=0
    ).parse_args()
    if given.small:
        measure_small(given.lengths)
        return
    options = {"buckets": {"sequence": given.bucket}} if given.bucket else {}
    if given.prompts:
        options |= {"carried": True, "shapes": {"batch": 1, "past_sequence_length": 256}}
    with tempfile.TemporaryDirectory() as folder:
        path = model_file(given.layers, given.width, folder, given.prompts)
        nodes = len(syclsched.onnx.load(path)._model.graph.nodes)
        compiled = syclsched.compile(path, devices="cpu", **options)
        rows = [measured(compiled, length) for length in given.lengths]
    lines = [tuple(f"{value:.3f}" if n else str(value) for n, value in enumerate(row)) for row in rows]
    print(f"{nodes} operators, {len(compiled.kept_shapes)} plans")
    print_table("Processor time, s", ("length", "first call", "second call", "the new shape"), lines, ["length"])
    others = [row[3] for row in rows[1:]]
    if others:
        print(f"after the first: {format_range(others, 3, 0)}, mean {statistics.mean(others):.3f}")


def measure_small(lengths: list[int]) -> None:
    """Measure the small models of any length."""
    rows = []
    for name, (make, _) in MODELS.items():
        compiled, took = syclsched.compile(make(), devices="cpu"), []
        for length in lengths:
            begun = time.process_time()
            compiled(inputs(name, length))
            took.append(time.process_time() - begun)
        rows.append((name, *(f"{value:.3f}" for value in took)))
    print_table("Processor time of the first call of each length, s", ("model", *map(str, lengths)), rows, ["model"])


def measured(compiled: syclsched.CompiledModel, length: int) -> tuple[int, float, float, float]:
    """Return a length, and the processor times in s of its first and second call and the difference."""
    inputs = {each.name: np.ones((1, length), np.int64) for each in compiled.inputs if each.dtype == "int64"}
    is_decoder = any(each.name == "seqlens_k" for each in compiled.inputs)
    if is_decoder:
        inputs["seqlens_k"] = np.array([length - 1], np.int32)
        inputs["total_sequence_length"] = np.array(length, np.int32)
    took = []
    for _ in range(2):
        if is_decoder:
            compiled.reset()
        begun = time.process_time()
        compiled(inputs)
        took.append(time.process_time() - begun)
    return length, *took, took[0] - took[1]


if __name__ == "__main__":
    main()
