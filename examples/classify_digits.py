# SPDX-License-Identifier: Apache-2.0
"""A picture in, classes out: forty handwritten digits recognised by a small trained network, and its timeline.

The model and the digits are in examples/data; tools/train_digits.py made both and says where the data is from. Needs
the extra ``onnx``.
"""

import sys
import tempfile
from pathlib import Path

import matplotlib.image
import numpy as np

import syclsched
from syclsched.tracing import draw_gantt

DATA = Path(__file__).parent / "data"
ZOOM, SIDE = 4, 8  # every pixel of a digit is 4 x 4 pixels of the picture; a digit has 8 x 8


def digits_of(picture: Path) -> np.ndarray:
    """Cut a picture, dark on light, into digits: (number, 1, 8, 8), 0 for paper, 1 for ink."""
    ink = 1 - matplotlib.image.imread(picture)[::ZOOM, ::ZOOM]
    rows, columns = (extent // SIDE for extent in ink.shape)
    return ink.reshape(rows, SIDE, columns, SIDE).transpose(0, 2, 1, 3).reshape(-1, 1, SIDE, SIDE).astype(np.float32)


def main(folder: Path) -> None:
    digits = digits_of(DATA / "digits.png")
    with syclsched.compile(DATA / "digits.onnx", devices="cpu", shapes={"batch": len(digits)}, trace=True) as classify:
        probabilities = classify(digits)["probabilities"]
        print(classify.report)
        with classify.start(digits) as run:
            run.wait()
            draw_gantt(run.trace(), folder / "digits.svg")
    classes, sure = probabilities.argmax(axis=1), probabilities.max(axis=1)
    true = [int(c) for line in (DATA / "digits.txt").read_text().split() for c in line]
    for at in range(0, len(classes), 10):
        print("  ".join(f"{c} {p:4.0%}" for c, p in zip(classes[at : at + 10], sure[at : at + 10], strict=True)))
    print(f"{np.sum(classes == true)} of {len(true)} are right; the timeline is in {folder / 'digits.svg'}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(Path(scratch))
