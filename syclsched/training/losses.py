# SPDX-License-Identifier: Apache-2.0
"""Loss functions and their gradients, as nodes of a training step."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.frontends.onnx.host_evaluation import evaluate_node
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.model_limits import ModelLimits
from syclsched.training.named_choice import chosen

Array = np.ndarray[Any, Any]

#: Dtypes that targets are converted to, by the kind of their own.
TARGET_DTYPES: Final = {"i": "int64", "u": "int64", "b": "int64", "f": "float32"}


@dataclass(frozen=True, slots=True)
class LossNodes:
    """The values of a loss over some samples; the loss is ``total / weight``, summed over all parts of a batch."""

    total: str  # a scalar
    weight: str  # a scalar
    gradient: str  # of the total by the prediction


class Loss(Protocol):
    """A loss function of a prediction and a target."""

    def emit(self, b: NetworkBuilder, prediction: str, target: str) -> LossNodes:
        """Add its nodes."""

    def check(self, target: Array, prediction: tuple[int, ...]) -> None:
        """Raise `ArgumentError` if a target does not fit a prediction of a shape."""

    def check_values(self, target: Array, prediction: tuple[int, ...]) -> None:
        """Raise `ArgumentError` if a target whose shape and dtype fit has values that do not."""


class _OfAnyValues:
    """Loss that takes all values of targets."""

    __slots__ = ()

    def check_values(self, target: Array, prediction: tuple[int, ...]) -> None:
        """Raise nothing."""


def _scalar(b: NetworkBuilder, x: str) -> str:
    return b.reduce("sum", x, range(len(b.shape(x))), keepdims=False) if b.shape(x) else x


def _per_element(b: NetworkBuilder, value: Any, gradient: Any, prediction: str, target: str) -> LossNodes:
    """Add a loss that is the mean of an expression of prediction and target."""
    kind = b.dtype(prediction)
    target = b.cast(target, kind)
    total = _scalar(b, b.elementwise(value, prediction, target))
    weight = b.constant(np.array(math.prod(b.shape(prediction)), kind))
    return LossNodes(total, weight, b.elementwise(gradient, prediction, target))


def _check_equal(target: Array, prediction: tuple[int, ...], name: str) -> None:
    if target.shape != prediction or target.dtype.kind != "f":
        raise _refused(target, prediction, name, f"floating-point numbers of the shape {prediction}")


def _refused(target: Array, prediction: tuple[int, ...], name: str, wanted: str) -> ArgumentError:
    """Return the error of a target that does not fit."""
    what = (
        f"the target is {target.dtype} of shape {target.shape}"
        if target.ndim
        else "the target is missing, or a single number"
    )
    return ArgumentError(f"{what}, and the prediction has the shape {prediction}", where=name, hint=f"Give {wanted}")


@dataclass(frozen=True, slots=True)
class CrossEntropy:
    """Cross-entropy of softmax, computed from the numbers before softmax.

    Parameters
    ----------
    axis : int, optional
        The axis of classes of the prediction. By default the second, as in PyTorch; or the last, if only so the labels
        fit.
    weights : sequence of float, optional
        A weight for each class; the loss is the weighted mean.
    ignored : int, optional
        The label of samples that do not count.
    """

    axis: int | None = None
    weights: tuple[float, ...] | None = None
    ignored: int = -100

    def __post_init__(self) -> None:
        if not isinstance(self.ignored, int | np.integer):
            raise ArgumentError(f"ignored is {self.ignored!r}, expected a whole number", where="CrossEntropy")
        weights = np.ones(1) if self.weights is None else np.asarray(self.weights, "float64")
        if weights.ndim != 1 or not (np.isfinite(weights) & (weights >= 0)).all():
            raise ArgumentError(
                f"weights is {self.weights!r}, expected a number that is not negative for each class",
                where="CrossEntropy",
            )

    def emit(self, b: NetworkBuilder, prediction: str, target: str) -> LossNodes:
        """Add its nodes."""
        shape, given = b.shape(prediction), b.shape(target)
        axis = self.class_axis(shape, given)
        logs = b.emit("softmax", [prediction], axis=axis, log=True)
        if b.dtype(target).startswith("float"):
            return self._of_probabilities(b, logs, target, axis)
        labels = b.with_axis(b.cast(target, "int64"), axis)
        counts = ("not_equal", 0, ("const", self.ignored, "int64"))
        known = b.elementwise(("where", counts, 0, ("const", 0, "int64")), labels)
        if self.weights is None:
            weights = b.elementwise(("cast", b.dtype(prediction), counts), labels)
        else:
            table = b.constant(np.array(self.weights, b.dtype(prediction)))
            weights = b.elementwise(("where", counts, 1, ("const", 0.0)), labels, b.gather(table, known))
        picked = b.emit("gather_elements", [logs, known], axis=axis)
        total = _scalar(b, b.elementwise(("neg", ("mul", 0, 1)), picked, weights))
        hit = ("cast", b.dtype(prediction), ("equal", 1, ("index", axis - len(shape))))
        gradient = b.elementwise(("mul", 2, ("sub", ("exp", 0), hit)), logs, known, weights)
        return LossNodes(total, _scalar(b, weights), gradient)

    def _of_probabilities(self, b: NetworkBuilder, logs: str, target: str, axis: int) -> LossNodes:
        kind = b.dtype(logs)
        target = b.cast(target, kind)
        if self.weights is not None:
            shape = [1] * len(b.shape(logs))
            shape[axis] = len(self.weights)
            target = b.elementwise(("mul", 0, 1), target, b.constant(np.array(self.weights, kind).reshape(shape)))
        total = _scalar(b, b.elementwise(("neg", ("mul", 0, 1)), logs, target))
        whole = b.reduce("sum", target, (axis,))
        gradient = b.elementwise(("sub", ("mul", ("exp", 0), 2), 1), logs, target, whole)
        samples = math.prod(b.shape(logs)) // b.shape(logs)[axis]
        return LossNodes(total, b.constant(np.array(samples, kind)), gradient)

    def class_axis(self, prediction: tuple[int, ...], target: tuple[int, ...]) -> int:
        """Return the axis of classes for the shapes of a prediction and a target."""
        rank = len(prediction)
        if self.axis is not None:
            if not -rank <= self.axis < rank:
                raise ArgumentError(
                    f"the axis of classes is {self.axis}, and the prediction has the shape {prediction}",
                    where="cross_entropy",
                )
            return self.axis % rank
        axes = [axis for axis in (1, rank - 1) if rank > 1]
        fitting = [axis for axis in axes if target == (*prediction[:axis], *prediction[axis + 1 :])]
        return (fitting or axes or [0])[0]

    def check(self, target: Array, prediction: tuple[int, ...]) -> None:
        """Raise `ArgumentError` if labels or probabilities do not fit a prediction of a shape."""
        axis = self.class_axis(prediction, target.shape)
        classes, wanted = prediction[axis], (*prediction[:axis], *prediction[axis + 1 :])
        if self.weights is not None and len(self.weights) != classes:
            raise ArgumentError(f"{len(self.weights)} weights are given for {classes} classes", where="cross_entropy")
        is_share = target.dtype.kind == "f"
        if target.dtype.kind not in "fiu" or target.shape != (prediction if is_share else wanted):
            either = f"integer labels of the shape {wanted}, or probabilities of the shape {prediction}"
            raise _refused(target, prediction, "cross_entropy", either)
        self.check_values(target, prediction)

    def check_values(self, target: Array, prediction: tuple[int, ...]) -> None:
        """Raise `ArgumentError` if labels are out of range."""
        if target.dtype.kind == "f" or not target.size:
            return
        classes = prediction[self.class_axis(prediction, target.shape)]
        if target.min() >= 0 and target.max() < classes:
            return
        wrong = ((target < 0) | (target >= classes)) & (target != self.ignored)
        if wrong.any():
            raise ArgumentError(
                f"label {target[wrong][0]} is out of range: the model has {classes} classes, 0 to {classes - 1}",
                where=f"cross_entropy, sample {int(np.argwhere(wrong)[0][0])}",
                hint=f"Samples of the label {self.ignored} do not count",
            )


@dataclass(frozen=True, slots=True)
class MeanSquaredError(_OfAnyValues):
    """Mean of the squared differences."""

    def emit(self, b: NetworkBuilder, prediction: str, target: str) -> LossNodes:
        """Add its nodes."""
        difference = ("sub", 0, 1)
        gradient = ("mul", ("const", 2.0), difference)
        return _per_element(b, ("square", difference), gradient, prediction, target)

    def check(self, target: Array, prediction: tuple[int, ...]) -> None:
        """Raise `ArgumentError` if a target does not have the prediction's shape."""
        _check_equal(target, prediction, "mean_squared_error")


@dataclass(frozen=True, slots=True)
class MeanAbsoluteError(_OfAnyValues):
    """Mean of the absolute differences."""

    def emit(self, b: NetworkBuilder, prediction: str, target: str) -> LossNodes:
        """Add its nodes."""
        difference = ("sub", 0, 1)
        return _per_element(b, ("abs", difference), ("sign", difference), prediction, target)

    def check(self, target: Array, prediction: tuple[int, ...]) -> None:
        """Raise `ArgumentError` if a target does not have the prediction's shape."""
        _check_equal(target, prediction, "mean_absolute_error")


@dataclass(frozen=True, slots=True)
class BinaryCrossEntropy:
    """Mean cross-entropy of the sigmoid of each number, computed from the numbers before it."""

    def emit(self, b: NetworkBuilder, prediction: str, target: str) -> LossNodes:
        """Add its nodes."""
        value = ("add", ("sub", ("relu", 0), ("mul", 0, 1)), ("softplus", ("neg", ("abs", 0))))
        return _per_element(b, value, ("sub", ("sigmoid", 0), 1), prediction, target)

    def check(self, target: Array, prediction: tuple[int, ...]) -> None:
        """Raise `ArgumentError` if a target does not have the prediction's shape, or is not from 0 to 1."""
        _check_equal(target, prediction, "binary_cross_entropy")
        self.check_values(target, prediction)

    def check_values(self, target: Array, prediction: tuple[int, ...]) -> None:
        """Raise `ArgumentError` if a target is not from 0 to 1."""
        if target.size and (target.min() < 0 or target.max() > 1):
            raise ArgumentError("targets are probabilities, from 0 to 1", where="binary_cross_entropy")


@dataclass(frozen=True, slots=True)
class ModelLoss(_OfAnyValues):
    """The loss that the model computes itself: its output is a scalar.

    Parameters
    ----------
    samples : int, optional
        The samples of which it is the mean: its weight beside that of other parts or batches.
    """

    samples: int = 1

    def emit(self, b: NetworkBuilder, prediction: str, target: str) -> LossNodes:
        """Add its nodes."""
        kind, total = b.dtype(prediction), b.reshape(prediction, ())
        if self.samples != 1:
            total = b.elementwise(("mul", 0, ("const", float(self.samples))), total)
        weight = b.constant(np.array(self.samples, kind))
        return LossNodes(total, weight, b.filled(b.shape(prediction), kind, self.samples))

    def check(self, target: Array, prediction: tuple[int, ...]) -> None:
        """Raise `ArgumentError` if the model's output is no scalar."""
        if math.prod(prediction) != 1:
            raise ArgumentError(
                f"the model's output has the shape {prediction}, and is no scalar",
                where="loss",
                hint=f"Name a loss: {', '.join(LOSSES)}",
            )


def of_samples(loss: Loss, samples: int) -> Loss:
    """Return a loss for a number of samples: one that the model computes does not count them itself."""
    return replace(loss, samples=samples) if isinstance(loss, ModelLoss) else loss


def checked_target(loss: Loss, target: Array, dtype: str, prediction: tuple[int, ...]) -> Array:
    """Return a target in the dtype of a step; raise `ArgumentError` if it does not fit a prediction of a shape."""
    made = target.astype(dtype, copy=False)
    # Labels beyond the dtype wrap: they are checked, and named, as they were given.
    wraps = target.dtype.kind == "u" and made.size > 0 and made.min() < 0
    loss.check(target if wraps else made, prediction)
    return made


def loss_on_host(loss: Loss, prediction: Array, target: Array) -> tuple[float, float]:
    """Return the total and the weight of a loss, computed with NumPy."""
    b = NetworkBuilder("loss", 0, {}, ModelLimits())
    known = {"prediction": prediction, "target": target}
    for name, array in known.items():
        b.add_input(name, array.shape, array.dtype.name)
    b.begin("loss", "loss")
    made = loss.emit(b, "prediction", "target")
    b.end([], [])
    network = b.finish("loss", [("total", made.total), ("weight", made.weight)])
    known |= network.constants
    for node in network.nodes:
        known |= evaluate_node(node, network.values, known)
    return float(known["total"]), float(known["weight"])


#: The losses by name.
LOSSES: Final[dict[str, Loss]] = {
    "cross_entropy": CrossEntropy(),
    "mean_squared_error": MeanSquaredError(),
    "mean_absolute_error": MeanAbsoluteError(),
    "binary_cross_entropy": BinaryCrossEntropy(),
    "model": ModelLoss(),
}


def loss_of(given: str | Loss) -> Loss:
    """Return a loss, or the one of a name."""
    return chosen(given, LOSSES, "loss", "emit")
