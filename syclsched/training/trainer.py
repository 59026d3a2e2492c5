# SPDX-License-Identifier: Apache-2.0
"""Trainers: a model whose training steps run as one bound plan, with its data, progress and checkpoints."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from syclsched.errors import ExecutionError
from syclsched.frontends.onnx.model_file.onnx_model import DeclaredValue
from syclsched.onnx.compiled_model import CompiledModel
from syclsched.progress import Progress
from syclsched.training.checkpoints import read_checkpoint, write_checkpoint
from syclsched.training.evaluation import Evaluation, evaluate
from syclsched.training.fitting import TrainingRecord, fit
from syclsched.training.session import TrainingSession
from syclsched.training.step_recipe import StepRecipe

if TYPE_CHECKING:
    from syclsched.devices.memory.resident_array import CopiedArray
    from syclsched.model.plan import Plan

Array = np.ndarray[Any, Any]


class Trainer:
    """A model in training. Made by `train`.

    Parameters
    ----------
    recipe : StepRecipe
        Makes and compiles its steps.
    named : bool
        Whether the parameters were named, so that each must have a gradient.
    seed : int
        Determines what dropout drops.
    """

    def __init__(self, recipe: StepRecipe, *, named: bool, seed: int) -> None:
        self._session = TrainingSession(recipe, named=named, seed=seed)
        self._lock = threading.RLock()
        self._closed = False

    def step(self, x: Any, y: Any = None) -> float:
        """Do one training step.

        Parameters
        ----------
        x : array-like, tuple of these, or Mapping[str, array-like]
            A batch of the model's inputs; the first axis counts samples.
        y : array-like, optional
            The target: labels or probabilities for cross-entropy, else numbers of the prediction's shape.

        Returns
        -------
        float
            The loss before the update.

        Raises
        ------
        ArgumentError
            If the batch does not fit the model, or the target the loss; nothing has run then.
        NotFiniteError
            If the loss or a gradient is not finite; it names the task. Nothing is updated then.
        TaskFailedError, ExecutionError
            If a task fails. Parameters and state are those of the last step. If an update failed or the memory of a
            device is gone, they are those of the last snapshot, and the error says of which step; where the host
            reaches the memory, there are no snapshots.
        """
        return self._step(x, y, None)

    def _step(self, x: Any, y: Any, copied: Mapping[str, CopiedArray] | None) -> float:
        with self._lock:
            self._check_open()
            return self._session.step(x, y, copied)

    def fit(
        self,
        batches: Iterable[Any],
        epochs: int = 1,
        *,
        progress: Progress | bool | None = True,
        after_step: Callable[[int, float], object] | None = None,
    ) -> TrainingRecord:
        """Train on batches, loading, converting and copying the next to the device while one is computed.

        Parameters
        ----------
        batches : iterable
            Pairs of x and y as for `step`, gone through once in each epoch.
        epochs : int, optional
            How often.
        progress : callable or bool, optional
            As for `syclsched.compile`; by default a bar with the loss and samples a second.
        after_step : callable, optional
            Called with the number of steps done and the loss after each.

        Returns
        -------
        TrainingRecord
            The losses. Ctrl-C ends it after the current step, with what there is.

        Raises
        ------
        ArgumentError
            If ``batches`` can be gone through only once, and there are several epochs; or as `step`.
        """
        return fit(self._session, self._step, batches, epochs, progress, after_step)

    def predict(self, x: Any) -> dict[str, Array]:
        """Compute the model with its present parameters, as in inference: without dropout, by running moments.

        Parameters
        ----------
        x : array-like, tuple of these, or Mapping[str, array-like]
            Inputs of the model.

        Returns
        -------
        dict of str to numpy.ndarray
            The outputs by name.

        Raises
        ------
        ArgumentError
            If the inputs do not fit the model.
        """
        with self._lock:
            self._check_open()
            return self._session.predict(x)

    def evaluate(self, batches: Iterable[Any]) -> Evaluation:
        """Compute loss and accuracy over batches, as `predict` does.

        Parameters
        ----------
        batches : iterable
            Pairs of x and y as for `step`.

        Returns
        -------
        Evaluation
            The mean loss; and for cross-entropy of labels the share of right ones.

        Raises
        ------
        ArgumentError
            If a batch does not fit the model, or there is none.
        """
        return evaluate(self._session.model, self.predict, batches)

    # --- state ------------------------------------------------------------------------------------

    @property
    def inputs(self) -> tuple[DeclaredValue, ...]:
        """The inputs as the model declares them."""
        return self._session.model.batch_inputs

    @property
    def steps(self) -> int:
        """Number of steps done."""
        return self._session.steps

    @property
    def parameters(self) -> dict[str, Array]:
        """Copies of the parameters by name; those that the loss does not depend on keep their values."""
        state = self._state()
        return {name: state[name] for name in self._session.recipe.trained.parameters}

    @property
    def plan(self) -> Plan:
        """The plan of the last step.

        Raises
        ------
        ExecutionError
            If there was no step yet.
        """
        if self._session.compiled is None:
            raise ExecutionError("there was no step yet", where=self._where, hint="Call step()")
        return self._session.compiled.plan

    @property
    def explanation(self) -> str:
        """The division of steps among devices or into micro-batches, for the last new shape of a batch, as predicted.

        Raises
        ------
        ExecutionError
            If there was no step yet.
        """
        plan, division = self.plan, self._session.division
        return division or f"on {', '.join(device.name for device in plan.platform.compute_devices)}: {plan.policy}"

    @property
    def compiled(self) -> CompiledModel | None:
        """The compiled step, with its report; None before the first step, and on a cluster."""
        compiled = self._session.compiled
        return compiled if isinstance(compiled, CompiledModel) else None

    def _state(self) -> dict[str, Array]:
        with self._lock:
            return self._session.state()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model with its trained parameters, whole or not at all: as ONNX for inference, of a graph as .npz.

        Parameters
        ----------
        path : path
            The file.

        Raises
        ------
        ArgumentError
            If parameters of a task graph are to be written to another kind of file.
        StorageError
            If it cannot be written; an older file stays as it is.
        """
        self._session.recipe.trained.save(self._state(), path)

    def checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Write parameters, the optimiser's state, the seed and the number of steps, whole or not at all.

        Parameters
        ----------
        path : path
            The file.

        Raises
        ------
        StorageError
            If it cannot be written; an older file stays as it is.
        """
        with self._lock:
            state, steps, seed = self._session.state(), self._session.steps, self._session.seed
            groups = self._session.model.groups
        write_checkpoint(path, state, groups, steps=steps, seed=seed)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Continue from a checkpoint, with the same bits as the run that wrote it.

        Parameters
        ----------
        path : path
            The file.

        Raises
        ------
        StorageError, FormatError
            If it cannot be read, belongs to another model, has other values of what is not trained, or the state of
            another optimiser; nothing is changed then. Settings such as the learning rate may differ.
        """
        with self._lock:
            self._check_open()
            model = self._session.model
            held = self._session.recipe.trained.model.graph.initialisers
            found = read_checkpoint(path, model.trained.values, model.groups, held)
            self._session.restore(found.values, found.steps, found.seed)

    def close(self) -> None:
        """Release all memory and the devices."""
        with self._lock:
            if not self._closed:
                self._session.close()
            self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise ExecutionError("it is closed", where=self._where)

    @property
    def _where(self) -> str:
        return f"trainer of {self._session.model.name!r}"

    def __enter__(self) -> Trainer:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        trained = self._session.recipe.trained
        count = sum(trained.values[name].size for name in trained.parameters)
        return f"<Trainer of {self._session.model.name!r}: {count:,} trained numbers, {self.steps:,} steps done>"
