# SPDX-License-Identifier: Apache-2.0
"""Training of ONNX models and task graphs: each step is one task graph, planned and bound like any other.

Names of `__all__` are public; the modules are Internal.

Examples
--------
>>> import numpy as np
>>> import onnx
>>> import syclsched
>>> model = onnx.parser.parse_model('''
... <ir_version: 9, opset_import: ["" : 17]>
... line (float[n, 1] x) => (float[n, 1] y) <float[1, 1] slope = {0}, float[1] start = {0}> {
...   z = MatMul (x, slope)
...   y = Add (z, start)
... }''')
>>> x = np.linspace(-1, 1, 8, dtype="float32")[:, None]
>>> with syclsched.train(model, "mean_squared_error", syclsched.training.SGD(0.5), devices="cpu") as trainer:
...     record = trainer.fit([(x, 2 * x + 1)], epochs=40, progress=False)
...     print({name: value.ravel().round(2).tolist() for name, value in trainer.parameters.items()})
{'slope': [2.0], 'start': [1.0]}
"""

from __future__ import annotations

from syclsched.training.fitting import TrainingRecord
from syclsched.training.losses import BinaryCrossEntropy, CrossEntropy, MeanAbsoluteError, MeanSquaredError
from syclsched.training.optimisers import SGD, Adagrad, Adam, AdamW, CosineDecay, StepDecay
from syclsched.training.trainer import Trainer
from syclsched.training.training import train

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "BinaryCrossEntropy",
    "CosineDecay",
    "CrossEntropy",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "StepDecay",
    "Trainer",
    "TrainingRecord",
    "train",
]
