# SPDX-License-Identifier: Apache-2.0
"""Train the small network of examples/classify_digits.py, and make its picture from digits of the test set.

    pip install 'syclsched[onnx]' pillow
    python tools/train_digits.py

The digits are those of examples/train_digits.py. Every fifth is kept for testing. Seeded: some 20 seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import syclsched

Array = np.ndarray[Any, Any]
FOLDER = Path(__file__).resolve().parent.parent / "examples" / "data"
EPOCHS, BATCH, RATE = 30, 64, 2e-3
ROWS, COLUMNS, ZOOM = 4, 10, 4


def network(random: np.random.Generator) -> Any:
    """Return the untrained model: any number of images in, ten probabilities for each out."""
    from onnx import TensorProto, helper, numpy_helper

    def weights(name: str, shape: tuple[int, ...], gain: float) -> tuple[str, str]:
        spread = (gain / np.prod(shape[1:])) ** 0.5
        held[f"{name}.w"] = random.normal(0, spread, shape).astype(np.float32)
        held[f"{name}.b"] = np.zeros(shape[0], np.float32)
        return f"{name}.w", f"{name}.b"

    held: dict[str, Array] = {}
    nodes, last, inside = [], "image", 1
    for number, outside in enumerate((16, 32, 64), start=1):
        conv, relu = f"conv{number}", f"relu{number}"
        inputs = [last, *weights(conv, (outside, inside, 3, 3), 2)]
        nodes.append(helper.make_node("Conv", inputs, [conv], name=conv, pads=[1] * 4, kernel_shape=[3, 3]))
        nodes.append(helper.make_node("Relu", [conv], [relu], name=relu))
        last, inside = relu, outside
        if number == 2:
            nodes.append(
                helper.make_node("MaxPool", [last], ["pool1"], name="pool1", kernel_shape=[2, 2], strides=[2, 2])
            )
            last = "pool1"
    nodes.append(helper.make_node("Flatten", [last], ["flat"], name="flat"))
    scores = ["flat", *weights("scores", (10, inside * 16), 1)]
    nodes.append(helper.make_node("Gemm", scores, ["scores"], name="scores", transB=1))
    nodes.append(helper.make_node("Softmax", ["scores"], ["probabilities"], name="probabilities", axis=1))
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ("batch", 1, 8, 8))],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ("batch", 10))],
        [numpy_helper.from_array(array, name) for name, array in held.items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8, producer_name="syclsched"
    )


def moved(x: Array, labels: Array, random: np.random.Generator) -> Iterator[tuple[Array, Array]]:
    """Yield the batches of an epoch, of digits shifted by up to a pixel."""
    order = random.permutation(len(x))
    for at in range(0, len(order), BATCH):
        chosen = order[at : at + BATCH]
        yield np.roll(x[chosen], random.integers(-1, 2, 2), axis=(2, 3)), labels[chosen]


def sheet(digits: Array) -> Array:
    """Return digits side by side, dark on light, with pixels large enough to see."""
    grid = 255 - np.round(digits[: ROWS * COLUMNS, 0] * 255).astype(np.uint8)
    rows = grid.reshape(ROWS, COLUMNS, 8, 8).transpose(0, 2, 1, 3).reshape(ROWS * 8, COLUMNS * 8)
    return rows.repeat(ZOOM, 0).repeat(ZOOM, 1)


def main() -> None:
    """Train, test, write."""
    import onnx
    from PIL import Image

    scans = np.load(FOLDER / "scans.npz")
    images, labels = scans["x"].astype(np.float32) / 16, scans["y"].astype(np.int64)
    testing = np.arange(len(images)) % 5 == 4
    random = np.random.default_rng(0)
    steps = EPOCHS * -(-int((~testing).sum()) // BATCH)
    optimizer = syclsched.Adam(syclsched.training.CosineDecay(RATE, steps=steps))
    with syclsched.train(network(random), optimizer=optimizer, devices="cpu") as trainer:
        for _ in range(EPOCHS):
            trainer.fit(moved(images[~testing], labels[~testing], random), progress=False)
        accuracy = trainer.evaluate([(images[testing], labels[testing])]).accuracy
        trainer.save(FOLDER / "digits.onnx")
    print(f"{accuracy:.2%} of {testing.sum()} digits are right")
    model = onnx.load(FOLDER / "digits.onnx")
    model.graph.doc_string = (
        f"{accuracy:.1%} of {testing.sum()} digits it was not trained on are right. Trained on 'Optical Recognition of "
        "Handwritten Digits', E. Alpaydin and C. Kaynak, UCI, https://doi.org/10.24432/C50P49, CC BY 4.0."
    )
    onnx.save(model, FOLDER / "digits.onnx")
    chosen = random.permutation(int(testing.sum()))
    Image.fromarray(sheet(images[testing][chosen])).save(FOLDER / "digits.png", optimize=True)
    true = labels[testing][chosen[: ROWS * COLUMNS]].reshape(ROWS, COLUMNS)
    (FOLDER / "digits.txt").write_text("\n".join("".join(map(str, row)) for row in true) + "\n")


if __name__ == "__main__":
    main()
