# SPDX-License-Identifier: Apache-2.0
"""Trainers: a model whose training steps run as one bound plan, with its data, progress and checkpoints."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from syclsched.devices.memory.resident_array import ResidentArray
from syclsched.errors import ArgumentError, ExecutionError, NotFiniteError
from syclsched.frontends.onnx.importing.import_state import SEED
from syclsched.frontends.onnx.model_file.onnx_model import DeclaredValue
from syclsched.interrupts import interrupts_deferred
from syclsched.onnx.compiled_model import CompiledModel
from syclsched.progress import Progress, shown
from syclsched.training.checkpoints import read_checkpoint, write_checkpoint
from syclsched.training.loading.batches import LoadedBatches, batch_of
from syclsched.training.losses import CrossEntropy, loss_on_host
from syclsched.training.not_finite import first_not_finite
from syclsched.training.repeated_step import RepeatedStep
from syclsched.training.splitting.cluster_step import ClusterStep
from syclsched.training.splitting.micro_batches import MicroBatchPlanner
from syclsched.training.splitting.split_planner import SplitPlanner
from syclsched.training.splitting.split_trial import tried
from syclsched.training.state_snapshots import StateSnapshots
from syclsched.training.step_model import without_gradient
from syclsched.training.step_network import LOSS, NORM, PARITY, TARGET, mixed_seed, scalar_name
from syclsched.training.step_recipe import StepRecipe

if TYPE_CHECKING:
    from syclsched.devices.memory.resident_array import CopiedArray
    from syclsched.execution.runner.input_copies import InputCopies
    from syclsched.model.plan import Plan
    from syclsched.onnx.carried_state import CarriedState

Array = np.ndarray[Any, Any]

#: Dtypes that targets of a kind are converted to.
_TARGETS: Final = {"i": "int64", "u": "int64", "b": "int64", "f": "float32"}


@dataclass(frozen=True, slots=True)
class TrainingRecord:
    """The record of `Trainer.fit`."""

    losses: tuple[float, ...] = field(repr=False)  # of each step
    epochs: tuple[float, ...]  # mean loss of each epoch
    samples_per_s: float  # over all steps but the first
    seconds: float  # with data loading
    interrupted: bool = False  # by Ctrl-C


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of `Trainer.evaluate`."""

    loss: float  # the mean
    accuracy: float | None  # share of right labels, of cross-entropy


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
        self._recipe = recipe
        self._named, self._seed = named, seed
        self._model = recipe.model("int64")
        self._left_out: frozenset[str] | None = None
        self._compiled: CompiledModel | ClusterStep | None = None
        #: State before it is in a compiled model.
        self._values: dict[str, Array] = self._model.trained.values
        #: Divides steps among several devices, or into micro-batches.
        self._splits: SplitPlanner | MicroBatchPlanner | None = None
        self._steps = 0
        self._predictor: CompiledModel | None = None
        #: Parameters that the last prediction was made with, and the number of steps then.
        self._predicted: tuple[int, dict[str, Array]] | None = None
        self._snapshots = StateSnapshots(recipe.snapshots)
        #: The step for batches of the last one's form.
        self._repeated: RepeatedStep | None = None
        #: Shapes of batches that were computed before.
        self._shapes: set[tuple[tuple[int, ...], ...]] = set()
        self._predictions: dict[tuple[Any, ...], tuple[int, ...]] = {}
        self._lock = threading.RLock()
        self._closed = False

    # --- steps ------------------------------------------------------------------------------------

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
            repeated = self._repeated
            if repeated is not None and repeated.compiled is self._compiled and repeated.takes(x, y):
                with interrupts_deferred():
                    run = partial(repeated.run, x, y, self._steps, self._seed, copied)
                    made = self._called(repeated.compiled, run, is_new=False)
                    return self._finished(made, repeated.values, x, y)
            values, target = batch_of(x, y, self._model.batch_inputs)
            shapes = tuple(value.shape for value in (*values.values(), target))
            # The first step of a shape is planned and takes long.
            with interrupts_deferred() if shapes in self._shapes else nullcontext():
                loss = self._stepped(values, target, is_new=shapes not in self._shapes)
            self._shapes.add(shapes)
            return loss

    def _stepped(self, values: dict[str, Array], target: Array, *, is_new: bool) -> float:
        compiled = self._compiled_for(values, target)
        target = target.astype(self._model.target_dtype, copy=False)
        prediction = self._check_target(values, target)
        made = self._called(compiled, partial(_call, compiled, self._given(values, target)), is_new=is_new)
        loss = self._finished(made, lambda _: values, None, target)
        self._repeated = RepeatedStep(compiled, self._model, values, target, prediction)
        return loss

    def _called(
        self, compiled: CompiledModel | ClusterStep, call: Callable[[], dict[str, Array]], *, is_new: bool
    ) -> dict[str, Array]:
        """Return the results of a step; copy the state meanwhile if that is due; return to a copy if it is lost."""
        state = compiled.carried_state if isinstance(compiled, CompiledModel) else None
        if state is None:
            return call()
        try:
            return self._snapshots.call(call, state, self._model, is_new=is_new)
        except ExecutionError as error:
            self._recover(state, error)
            raise

    def _finished(
        self, made: Mapping[str, Array], values: Callable[[Any], Mapping[str, Array]], x: Any, target: Array
    ) -> float:
        """Count a step with these results; return its loss, or raise if that is not finite."""
        loss, norm = float(made[LOSS]), float(made[NORM])
        if not math.isfinite(loss) or not math.isfinite(norm):
            raise self._not_finite(self._given(values(x), target), loss)
        self._steps += 1
        self._model.steps_done = self._steps
        return loss

    def _given(self, values: Mapping[str, Array], target: Array) -> dict[str, Array]:
        """Return the inputs of a step."""
        scalars = self._model.optimiser.scalars(self._steps)
        given = {**values, TARGET: target}
        given |= {scalar_name(name): np.array(number, np.float32) for name, number in scalars.items()}
        if self._model.has_dropout:
            given[SEED] = mixed_seed(self._seed, self._steps)
        return given

    def _recover(self, state: CarriedState, error: ExecutionError) -> None:
        """After a failed step whose state is lost, continue from its last snapshot; raise an error that says so."""
        held, snapshot = state.memory().values(), self._snapshots.last
        if snapshot is None or not state.is_lost or not any(isinstance(each, ResidentArray) for each in held):
            return
        failed = self._steps + 1
        self._values |= {name: np.array(value) for name, value in snapshot.values.items()}
        self._steps, self._predicted = snapshot.steps, None
        try:
            self._reset()
            lost: tuple[str, ...] = ()
        except ExecutionError:
            lost = self._leave_lost_devices()
        without = f", without {', '.join(lost)}" if lost else ""
        raise ExecutionError(
            f"step {failed} failed, and the state was lost: parameters and the optimizer's state are those after "
            f"{snapshot.steps} steps again",
            where=f"trainer of {self._model.name!r}",
            hint=f"Go on with the batch of step {snapshot.steps + 1}{without}, or save() or checkpoint() this state",
        ) from error

    def _leave_lost_devices(self) -> tuple[str, ...]:
        """Release all that is on devices; return those that do not respond and that later steps do without."""
        lost = () if self.compiled is None else self.compiled.lost_devices()
        for each in (self._compiled, self._predictor):
            if each is not None:
                with suppress(Exception):  # of a device that is lost
                    each.close()
        self._compiled = self._predictor = None
        left = self._recipe.without_devices(lost)
        if left is None:
            return ()
        self._recipe = left
        return lost

    def _not_finite(self, given: Mapping[str, Array], loss: float) -> NotFiniteError:
        held = self._compiled.carried() if self._compiled is not None else {}
        found = first_not_finite(self._model, {**held, **given}, self._recipe.used_platform())
        what = "the loss" if not math.isfinite(loss) else "a gradient"
        return NotFiniteError(
            f"{what} is not finite in step {self._steps}; nothing is updated",
            task=found,
            hint="Check the data of this batch, lower the learning rate, or give clip_norm",
        )

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
        if epochs < 1:
            raise ArgumentError(f"epochs is {epochs}, expected at least 1", where="fit()")
        if epochs > 1 and iter(batches) is batches:
            raise ArgumentError(
                "the batches can be gone through only once",
                where="fit()",
                hint="Give a list, or an object whose __iter__ begins anew",
            )
        losses: list[float] = []
        starts: list[int] = []  # of the epochs, in steps
        begun_s, samples, first_s, interrupted = time.perf_counter(), 0, 0.0, False
        per_epoch = len(batches) if isinstance(batches, Sized) else 0
        with shown("train", progress) as tell:
            try:
                for epoch in range(epochs):
                    starts.append(len(losses))
                    for loss, x in self._steps_of(batches):
                        losses.append(loss)
                        if len(losses) == 1:
                            first_s = time.perf_counter()
                        else:
                            samples += _samples(x)
                        if after_step is not None:
                            after_step(self._steps, losses[-1])
                        if tell is not None:
                            rate = samples / max(time.perf_counter() - first_s, 1e-9)
                            step = f"epoch {epoch + 1}/{epochs}, loss {losses[-1]:.4g}, {rate:,.0f} samples/s"
                            tell(len(losses), per_epoch * epochs, step)
                    if len(losses) == starts[-1]:
                        raise ArgumentError("there are no batches", where=f"fit(), epoch {epoch + 1}")
            except KeyboardInterrupt:
                interrupted = True
        end_s = time.perf_counter()
        parts = np.split(np.array(losses), starts[1:])
        means = tuple(float(each.mean()) for each in parts if each.size)
        rate = samples / (end_s - first_s) if samples else 0.0
        return TrainingRecord(tuple(losses), means, rate, end_s - begun_s, interrupted)

    def _steps_of(self, batches: Iterable[Any]) -> Iterator[tuple[float, tuple[Array, ...]]]:
        """Do a step with each batch, and yield its loss and inputs; the next batch is loaded and copied meanwhile."""
        with ExitStack() as held, closing(LoadedBatches(batches, self._model.batch_inputs, "fit()")) as loaded:
            of: RepeatedStep | None = None
            copies: InputCopies | None = None
            for x, y, copied in loaded:
                step = self._repeated
                if step is None or step is not of or step.compiled is not self._compiled or not step.takes(x, y):
                    held.close()  # a plan for another shape may need the memory
                    of = step = step if step is not None and step.takes(x, y) else None
                    copies = None if step is None else step.input_copies()
                    if copies is not None:
                        held.callback(copies.close)
                if step is not None and copies is not None:
                    loaded.copy_next(partial(step.copy, copies))
                yield self._step(x, y, copied), x

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
            values, _ = batch_of(x, None, self._model.batch_inputs)
            if self._predictor is None:
                self._predictor = self._recipe.predictor(self._left_out or ())
            if self._predicted is None or self._predicted[0] != self._steps:
                names = {each.name for each in self._predictor.inputs}
                self._predicted = self._steps, {k: v for k, v in self._state().items() if k in names}
            return self._predictor({**self._predicted[1], **values})

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
        total = weight = right = labels = 0.0
        for x, target in self._loaded(batches):
            prediction = self.predict(x)[self._model.output]
            target = target.astype(_TARGETS.get(target.dtype.kind, target.dtype.name), copy=False)
            loss = self._model.loss
            loss.check(target, prediction.shape)
            if isinstance(loss, CrossEntropy) and target.dtype.kind == "i":
                guessed = prediction.argmax(loss.class_axis(prediction.shape, target.shape))
                counted = target != loss.ignored
                right += float((guessed == target)[counted].sum())
                labels += float(counted.sum())
            more = loss_on_host(loss, self._as_scores(prediction), target)
            total, weight = total + more[0], weight + more[1]
        if not weight:
            raise ArgumentError("there are no batches", where="evaluate()")
        return Evaluation(total / weight, right / labels if labels else None)

    def _loaded(self, batches: Iterable[Any]) -> Iterator[tuple[tuple[Array, ...], Array]]:
        with closing(LoadedBatches(batches, self._model.batch_inputs, "evaluate()")) as loaded:
            for x, target, _ in loaded:
                yield x, target

    def _as_scores(self, prediction: Array) -> Array:
        """Return a prediction as the loss takes it: of probabilities their logarithms."""
        if not isinstance(self._model.loss, CrossEntropy) or not self._model.ends_with_softmax:
            return prediction
        with np.errstate(divide="ignore"):
            logs: Array = np.log(prediction)
        return logs

    # --- preparation ------------------------------------------------------------------------------

    def _compiled_for(self, values: Mapping[str, Array], target: Array) -> CompiledModel | ClusterStep:
        """Return the compiled step for a batch; at the first one, or the first with another kind of target, make it."""
        dtype = _TARGETS.get(target.dtype.kind)
        if dtype is None:
            raise ArgumentError(f"the target is of {target.dtype}", where="y", hint="Give integers or floats")
        if dtype == "float32" and target.dtype == np.float64 and self._is_double():
            dtype = "float64"
        if self._compiled is not None and self._model.target_dtype == dtype:
            return self._compiled
        if self._left_out is None:
            shapes = {name: value.shape for name, value in values.items()}
            self._left_out = without_gradient(self._model, shapes, named=self._named)
        self._take_values()
        self._recipe = self._recipe.on_platform()
        self._model = self._recipe.model(dtype, self._left_out)
        self._splits = self._recipe.divided(self._model)
        self._try_split(values, target)
        self._compiled = self._recipe.compiled(self._model)
        self._reset()
        return self._compiled

    def _try_split(self, values: Mapping[str, Array], target: Array) -> None:
        """If steps are divided among devices by prediction, keep that only if they are measured to be faster so."""
        planner = self._splits
        if not isinstance(planner, SplitPlanner) or not self._recipe.may_try:
            return
        target = target.astype(self._model.dtype(TARGET), copy=False)
        self._check_target(values, target)
        shapes = self._model.full_shapes(
            {**{name: value.shape for name, value in values.items()}, TARGET: target.shape}
        )
        choice = planner.choose(shapes)
        if choice.trial is None:
            return
        from syclsched.profiling import HistoryStore

        with ExitStack() as stack:

            def run(recipe: StepRecipe) -> Callable[[], object]:
                model = recipe.model(self._model.dtype(TARGET).name, self._left_out or ())
                recipe.divided(model)
                compiled = recipe.compiled(model)
                stack.callback(compiled.close)
                compiled.reset(**self._carried_values())
                return partial(_call, compiled, self._given(values, target))

            def runs() -> tuple[Callable[[], object], Callable[[], object]]:
                return run(replace(self._recipe, split="single")), run(replace(self._recipe, split=choice.best.kind))

            with HistoryStore() as history:
                planner.keep(shapes, tried(choice, planner.platform, history, runs))

    def _is_double(self) -> bool:
        return any(value.dtype == np.float64 for value in self._values.values())

    def _take_values(self) -> None:
        """Take the state out of the compiled model, and close that."""
        if self._compiled is not None:
            self._values |= self._compiled.carried()
            self._snapshots.drop()
            self._compiled.close()
            self._compiled = self._repeated = None

    def _reset(self) -> None:
        assert self._compiled is not None
        self._model.steps_done = self._steps
        self._snapshots.drop()
        values = self._carried_values()
        self._compiled.reset(**values)
        self._snapshots.keep(self._steps, values)

    def _carried_values(self) -> dict[str, Array]:
        self._values[PARITY] = np.array(self._steps % 2, np.float32)
        names = set(self._model.carried.values())
        return {name: value for name, value in self._values.items() if name in names}

    def _check_target(self, values: Mapping[str, Array], target: Array) -> tuple[int, ...]:
        """Check a target, and return the shape of the prediction."""
        shapes = {name: value.shape for name, value in values.items()}
        key = tuple(shapes.values())
        if key not in self._predictions:
            self._predictions[key] = self._model.prediction_shape(shapes)
        self._model.loss.check(target, self._predictions[key])
        return self._predictions[key]

    def _check_open(self) -> None:
        if self._closed:
            raise ExecutionError("it is closed", where=f"trainer of {self._model.name!r}")

    # --- state ------------------------------------------------------------------------------------

    @property
    def inputs(self) -> tuple[DeclaredValue, ...]:
        """The inputs as the model declares them."""
        return self._model.batch_inputs

    @property
    def steps(self) -> int:
        """Number of steps done."""
        return self._steps

    @property
    def parameters(self) -> dict[str, Array]:
        """Copies of the trained parameters by name."""
        state = self._state()
        return {name: state[name] for name in self._model.trained.parameters}

    @property
    def plan(self) -> Plan:
        """The plan of the last step.

        Raises
        ------
        ExecutionError
            If there was no step yet.
        """
        if self._compiled is None:
            raise ExecutionError("there was no step yet", where=f"trainer of {self._model.name!r}", hint="Call step()")
        return self._compiled.plan

    @property
    def explanation(self) -> str:
        """The division of steps among devices or into micro-batches, for the last new shape of a batch, as predicted.

        Raises
        ------
        ExecutionError
            If there was no step yet.
        """
        plan, planner = self.plan, self._splits
        if planner is not None and planner.last is not None:
            return planner.last.text
        return f"on {', '.join(device.name for device in plan.platform.compute_devices)}: {plan.policy}"

    @property
    def compiled(self) -> CompiledModel | None:
        """The compiled step, with its report; None before the first step, and on a cluster."""
        return self._compiled if isinstance(self._compiled, CompiledModel) else None

    def _state(self) -> dict[str, Array]:
        with self._lock:
            held = {} if self._compiled is None else self._compiled.carried()
            return {name: np.array(value) for name, value in {**self._values, **held}.items()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model with its trained parameters as ONNX, those of a task graph as .npz, whole or not at all.

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
        self._recipe.trained.save(self._state(), path)

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
        write_checkpoint(path, self._state(), steps=self._steps, seed=self._seed)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Continue from a checkpoint, with the same bits as the run that wrote it.

        Parameters
        ----------
        path : path
            The file.

        Raises
        ------
        StorageError, FormatError
            If it cannot be read, or belongs to another model; nothing is changed then.
        """
        with self._lock:
            self._check_open()
            found = read_checkpoint(path, self._model.trained.values, self._model.optimiser.slots)
            self._values.update(found.values)
            self._steps, self._seed, self._predicted = found.steps, found.seed, None
            if self._compiled is not None:
                self._reset()

    def close(self) -> None:
        """Release all memory and the devices."""
        with self._lock:
            if not self._closed:
                self._snapshots.drop()
                if self._compiled is not None:
                    self._compiled.close()
                if self._predictor is not None:
                    self._predictor.close()
            self._closed = True

    def __enter__(self) -> Trainer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        count = sum(self._values[name].size for name in self._model.trained.parameters)
        return f"<Trainer of {self._model.name!r}: {count:,} trained numbers, {self._steps:,} steps done>"


def _call(compiled: CompiledModel | ClusterStep, given: Mapping[str, Array]) -> dict[str, Array]:
    """Call a step with its inputs in the model's order, which is the quickest call."""
    return compiled(*(given[each.name] for each in compiled.inputs if each.name in given))


def _samples(x: Any) -> int:
    parts = list(x.values()) if isinstance(x, Mapping) else x if isinstance(x, tuple) else (x,)
    shape = np.shape(parts[0]) if parts else ()
    return shape[0] if shape else 1
