# SPDX-License-Identifier: Apache-2.0
"""Evaluation of a model in training: loss and accuracy over batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.training.loading.batches import LoadedBatches
from syclsched.training.losses import (
    TARGET_DTYPES,
    BinaryCrossEntropy,
    CrossEntropy,
    checked_target,
    loss_on_host,
    of_samples,
)
from syclsched.training.steps.step_model import StepModel

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of `Trainer.evaluate`."""

    loss: float  # the mean
    accuracy: float | None  # share of right labels, of cross-entropy


def evaluate(model: StepModel, predict: Callable[[Any], Mapping[str, Array]], batches: Iterable[Any]) -> Evaluation:
    """Compute loss and accuracy over batches; see `Trainer.evaluate`."""
    total = weight = right = labels = 0.0
    count = 0
    with closing(LoadedBatches(batches, model.batch_inputs, "evaluate()")) as loaded:
        for x, target, _ in loaded:
            prediction = predict(x)[model.output]
            loss = of_samples(model.loss, model.samples(_shapes(model, x)))
            dtype = TARGET_DTYPES.get(target.dtype.kind, target.dtype.name)
            if dtype == "float32" and target.dtype == prediction.dtype == np.float64:
                dtype = "float64"
            target = checked_target(loss, target, dtype, prediction.shape)
            if isinstance(loss, CrossEntropy) and target.dtype.kind == "i":
                guessed = prediction.argmax(loss.class_axis(prediction.shape, target.shape))
                counted = target != loss.ignored
                right += float((guessed == target)[counted].sum())
                labels += float(counted.sum())
            more = loss_on_host(loss, _as_scores(model, x, prediction), target)
            total, weight, count = total + more[0], weight + more[1], count + 1
    if not weight:
        raise ArgumentError("no sample counts" if count else "there are no batches", where="evaluate()")
    return Evaluation(total / weight, right / labels if labels else None)


def _as_scores(model: StepModel, x: tuple[Array, ...], prediction: Array) -> Array:
    """Return the prediction for a batch as the loss takes it: of probabilities finite numbers that they follow from."""
    if not model.ends_with_probabilities(_shapes(model, x)):
        return prediction
    least = np.finfo(prediction.dtype).tiny
    scores: Array = np.log(np.maximum(prediction, least))
    return scores - np.log(np.maximum(1 - prediction, least)) if isinstance(model.loss, BinaryCrossEntropy) else scores


def _shapes(model: StepModel, x: tuple[Array, ...]) -> dict[str, tuple[int, ...]]:
    return {each.name: value.shape for each, value in zip(model.batch_inputs, x, strict=True)}
