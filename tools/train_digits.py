# SPDX-License-Identifier: Apache-2.0
"""Train the little network of examples/classify_digits.py, and cut its picture from digits it has not seen.

    pip install scikit-learn onnx pillow
    python tools/train_digits.py

The digits are those of E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning
Repository, 1998, https://doi.org/10.24432/C50P49, licence CC BY 4.0, as scikit-learn ships them: 1,797 scans of 8 x 8
pixels. Every fifth is kept for testing. Plain NumPy, seeded: some two minutes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
FOLDER = Path(__file__).resolve().parent.parent / "examples" / "data"
EPOCHS, BATCH, RATE = 30, 64, 2e-3
ROWS, COLUMNS, ZOOM = 4, 10, 4


def columns(x: Array) -> Array:
    """Return the 3 x 3 neighbourhood of every pixel: (batch, height, width, channels x 9)."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(x.shape[0], *x.shape[2:], -1)


class Convolution:
    """3 x 3, same size, then relu."""

    def __init__(self, inputs: int, outputs: int, random: np.random.Generator) -> None:
        self.w = random.normal(0, (2 / (inputs * 9)) ** 0.5, (outputs, inputs, 3, 3)).astype(np.float32)
        self.b = np.zeros(outputs, np.float32)

    def forward(self, x: Array) -> Array:
        self.shape, self.seen = x.shape, columns(x)
        y = self.seen @ self.w.reshape(len(self.w), -1).T + self.b
        self.on = y > 0
        return np.ascontiguousarray((y * self.on).transpose(0, 3, 1, 2))

    def backward(self, grad: Array) -> tuple[Array, list[Array]]:
        g = grad.transpose(0, 2, 3, 1) * self.on
        flat = g.reshape(-1, g.shape[-1])
        dw = (flat.T @ self.seen.reshape(len(flat), -1)).reshape(self.w.shape)
        d = (g @ self.w.reshape(len(self.w), -1)).reshape(*g.shape[:3], self.shape[1], 3, 3)
        dx = np.zeros((self.shape[0], self.shape[1], self.shape[2] + 2, self.shape[3] + 2), np.float32)
        for i in range(3):
            for j in range(3):
                dx[:, :, i : i + self.shape[2], j : j + self.shape[3]] += d[..., i, j].transpose(0, 3, 1, 2)
        return dx[:, :, 1:-1, 1:-1], [dw, flat.sum(0)]

    def weights(self) -> list[Array]:
        return [self.w, self.b]


class Pool:
    """The largest of 2 x 2."""

    def forward(self, x: Array) -> Array:
        n, c, h, w = x.shape
        self.blocks = x.reshape(n, c, h // 2, 2, w // 2, 2)
        y = self.blocks.max((3, 5), keepdims=True)
        self.most = self.blocks == y
        return np.ascontiguousarray(y[:, :, :, 0, :, 0])

    def backward(self, grad: Array) -> tuple[Array, list[Array]]:
        spread = self.most * grad[:, :, :, None, :, None] / self.most.sum((3, 5), keepdims=True)
        n, c, h, _, w, _ = spread.shape
        return spread.reshape(n, c, 2 * h, 2 * w).astype(np.float32), []

    def weights(self) -> list[Array]:
        return []


class Dense:
    """All pixels to ten scores."""

    def __init__(self, inputs: int, random: np.random.Generator) -> None:
        self.w = random.normal(0, (1 / inputs) ** 0.5, (10, inputs)).astype(np.float32)
        self.b = np.zeros(10, np.float32)

    def forward(self, x: Array) -> Array:
        self.shape, self.seen = x.shape, x.reshape(len(x), -1)
        return self.seen @ self.w.T + self.b

    def backward(self, grad: Array) -> tuple[Array, list[Array]]:
        return (grad @ self.w).reshape(self.shape), [grad.T @ self.seen, grad.sum(0)]

    def weights(self) -> list[Array]:
        return [self.w, self.b]


def forward(layers: list[Any], x: Array) -> Array:
    for layer in layers:
        x = layer.forward(x)
    return x


def train(layers: list[Any], x: Array, labels: Array, random: np.random.Generator) -> None:
    """Adam (Kingma and Ba, arXiv:1412.6980), on digits moved by up to a pixel."""
    weights = [w for layer in layers for w in layer.weights()]
    first, second = ([np.zeros_like(w) for w in weights] for _ in range(2))
    step = 0
    for epoch in range(EPOCHS):
        order = random.permutation(len(x))
        rate = RATE * (1 - epoch / EPOCHS)
        for at in range(0, len(order), BATCH):
            chosen, step = order[at : at + BATCH], step + 1
            moved = np.roll(x[chosen], random.integers(-1, 2, 2), axis=(2, 3))
            scores = forward(layers, moved)
            grad = np.exp(scores - scores.max(1, keepdims=True))
            grad /= grad.sum(1, keepdims=True)
            grad[np.arange(len(chosen)), labels[chosen]] -= 1
            grad /= len(chosen)
            grads: list[Array] = []
            for layer in reversed(layers):
                grad, mine = layer.backward(grad)
                grads = mine + grads
            for w, g, m, v in zip(weights, grads, first, second, strict=True):
                m += 0.1 * (g - m)
                v += 0.001 * (g * g - v)
                w -= rate * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)


def as_onnx(layers: list[Any], accuracy: float, tested: int) -> Any:
    """Return the network as a model: images of any number in, ten probabilities each out."""
    from onnx import TensorProto, helper, numpy_helper

    nodes, constants, last, counts = [], [], "image", {"Conv": 0, "Pool": 0}
    for layer in layers:
        if isinstance(layer, Pool):
            counts["Pool"] += 1
            name = f"pool{counts['Pool']}"
            nodes.append(helper.make_node("MaxPool", [last], [name], name=name, kernel_shape=[2, 2], strides=[2, 2]))
            last = name
            continue
        dense = isinstance(layer, Dense)
        counts["Conv"] += not dense
        name = "scores" if dense else f"conv{counts['Conv']}"
        constants += [
            numpy_helper.from_array(w, f"{name}.{part}") for w, part in zip(layer.weights(), "wb", strict=True)
        ]
        inputs = [f"{name}.w", f"{name}.b"]
        if dense:
            nodes.append(helper.make_node("Flatten", [last], ["flat"], name="flat"))
            nodes.append(helper.make_node("Gemm", ["flat", *inputs], [name], name=name, transB=1))
            nodes.append(helper.make_node("Softmax", [name], ["probabilities"], name="probabilities", axis=1))
        else:
            nodes.append(
                helper.make_node("Conv", [last, *inputs], [name], name=name, pads=[1] * 4, kernel_shape=[3, 3])
            )
            last = name.replace("conv", "relu")
            nodes.append(helper.make_node("Relu", [name], [last], name=last))
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ("batch", 1, 8, 8))],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ("batch", 10))],
        constants,
        doc_string=f"{accuracy:.1%} of {tested} digits it was not trained on are right. Trained on 'Optical "
        "Recognition of Handwritten Digits', E. Alpaydin and C. Kaynak, UCI, "
        "https://doi.org/10.24432/C50P49, CC BY 4.0.",
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8, producer_name="syclsched"
    )


def sheet(digits: Array) -> Array:
    """Return digits side by side, dark on light, each pixel so large that people can see it."""
    grid = 255 - np.round(digits[: ROWS * COLUMNS, 0] * 255).astype(np.uint8)
    rows = grid.reshape(ROWS, COLUMNS, 8, 8).transpose(0, 2, 1, 3).reshape(ROWS * 8, COLUMNS * 8)
    return rows.repeat(ZOOM, 0).repeat(ZOOM, 1)


def main() -> None:
    """Train, test, write."""
    import onnx
    from PIL import Image
    from sklearn.datasets import load_digits

    data = load_digits()
    images = (data.images[:, None] / 16).astype(np.float32)
    testing = np.arange(len(images)) % 5 == 4
    random = np.random.default_rng(0)
    layers: list[Any] = [
        Convolution(1, 16, random),
        Convolution(16, 32, random),
        Pool(),
        Convolution(32, 64, random),
        Dense(64 * 16, random),
    ]
    train(layers, images[~testing], data.target[~testing], random)
    unseen, labels = images[testing], data.target[testing]
    accuracy = float((forward(layers, unseen).argmax(1) == labels).mean())
    print(f"{accuracy:.2%} of {len(unseen)} digits are right")
    FOLDER.mkdir(exist_ok=True)
    onnx.save(as_onnx(layers, accuracy, len(unseen)), str(FOLDER / "digits.onnx"))
    chosen = random.permutation(len(unseen))
    Image.fromarray(sheet(unseen[chosen])).save(FOLDER / "digits.png", optimize=True)
    true = labels[chosen[: ROWS * COLUMNS]].reshape(ROWS, COLUMNS)
    (FOLDER / "digits.txt").write_text("\n".join("".join(map(str, row)) for row in true) + "\n")


if __name__ == "__main__":
    main()
