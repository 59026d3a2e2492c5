# SPDX-License-Identifier: Apache-2.0
"""A network trained to read handwritten digits: every step is one task graph on the CPU.

The digits are those of E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning
Repository, 1998, https://doi.org/10.24432/C50P49, licence CC BY 4.0: 1,797 scans of 8 x 8 pixels, of which every fifth
is kept for testing. Needs the extra ``onnx``. A file name draws the losses: ``train_digits.py loss.svg``.
"""

import sys
from pathlib import Path

import numpy as np

import syclsched
from syclsched.testing.training_models import perceptron
from syclsched.training import AdamW, CosineDecay

EPOCHS, BATCH = 20, 32

scans = np.load(Path(__file__).parent / "data" / "scans.npz")
x, y = scans["x"].reshape(-1, 64).astype("float32") / 16, scans["y"].astype("int64")
testing = np.arange(len(x)) % 5 == 4
x_train, y_train, random = x[~testing], y[~testing], np.random.default_rng(0)


class Batches:
    """Batches in a new random order in each epoch."""

    def __len__(self) -> int:
        return -(-len(x_train) // BATCH)

    def __iter__(self):
        order = random.permutation(len(x_train))
        for first in range(0, len(order), BATCH):
            chosen = order[first : first + BATCH]
            yield x_train[chosen], y_train[chosen]


rate = CosineDecay(3e-3, steps=EPOCHS * len(Batches()), warmup=20)
with syclsched.train(perceptron((64, 128, 10)).onnx, optimizer=AdamW(rate), devices="cpu") as trainer:
    record = trainer.fit(Batches(), epochs=EPOCHS, progress=False)
    for epoch in range(0, EPOCHS, 5):
        print(f"epoch {epoch + 1:2}: loss {record.epochs[epoch]:.3f}")
    found = trainer.evaluate([(x[testing], y[testing])])
print(
    f"{found.accuracy:.1%} of {testing.sum()} digits it has not seen are right; {record.samples_per_s:,.0f} samples/s"
)
if sys.argv[1:]:
    from syclsched.training.loss_chart import draw_losses

    losses = np.reshape(record.losses, (EPOCHS, -1))
    draw_losses(losses.tolist(), sys.argv[1], title="Handwritten digits: cross-entropy")
if found.accuracy < 0.97:
    raise SystemExit("expected at least 97%")
