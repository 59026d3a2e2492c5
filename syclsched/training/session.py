# SPDX-License-Identifier: Apache-2.0
"""Training sessions: the parameters and state of a model, and its step and its inference compiled on devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from syclsched.devices.memory.resident_array import ResidentArray
from syclsched.errors import ArgumentError, ExecutionError, NotFiniteError
from syclsched.frontends.onnx.importing.import_state import SEED
from syclsched.interrupts import interrupts_deferred
from syclsched.onnx.compiled_model import CompiledModel
from syclsched.training.loading.batches import batch_of
from syclsched.training.losses import TARGET_DTYPES, checked_target, loss_on_host
from syclsched.training.repeated_step import RepeatedStep
from syclsched.training.splitting.cluster_step import ClusterStep
from syclsched.training.splitting.micro_batches import MicroBatchPlanner
from syclsched.training.splitting.split_planner import SplitPlanner
from syclsched.training.splitting.split_trial import tried
from syclsched.training.state_snapshots import StateSnapshots
from syclsched.training.step_recipe import StepRecipe
from syclsched.training.steps.not_finite import first_not_finite
from syclsched.training.steps.step_model import StepModel, without_gradient
from syclsched.training.steps.step_network import LOSS, NORM, PARITY, TARGET, mixed_seed

if TYPE_CHECKING:
    from syclsched.devices.memory.resident_array import CopiedArray
    from syclsched.onnx.carried_state import CarriedState

Array = np.ndarray[Any, Any]


class TrainingSession:
    """Steps of one training; its calls must not overlap.

    ``named`` says whether the parameters were named, so that each must have a gradient; ``seed`` determines what
    dropout drops.
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
        #: The loss of the last step, which an interrupt at its end would lose.
        self.last_loss = math.nan
        self._predictor: CompiledModel | None = None
        #: The parameters as inputs of the predictor, until a step changes them.
        self._predicted: dict[str, Array] | None = None
        self.snapshots = StateSnapshots(recipe.snapshots)
        #: The compiled step for batches of the last one's form.
        self._repeated: RepeatedStep | None = None
        #: Shapes of batches that were computed before.
        self._shapes: set[tuple[tuple[int, ...], ...]] = set()
        self._predictions: dict[tuple[Any, ...], tuple[int, ...]] = {}

    @property
    def recipe(self) -> StepRecipe:
        """The settings, with the devices that are left."""
        return self._recipe

    @property
    def model(self) -> StepModel:
        """The model of the steps."""
        return self._model

    @property
    def steps(self) -> int:
        """Number of steps done."""
        return self._steps

    @property
    def seed(self) -> int:
        """The seed of dropout."""
        return self._seed

    @property
    def compiled(self) -> CompiledModel | ClusterStep | None:
        """The compiled step; None before the first one."""
        return self._compiled

    @property
    def division(self) -> str | None:
        """Explanation of how steps for the last new shape of a batch are divided; None if they are not."""
        return None if self._splits is None or self._splits.last is None else self._splits.last.text

    # --- steps ------------------------------------------------------------------------------------

    def repeated_for(self, x: Any, y: Any) -> RepeatedStep | None:
        """Return the compiled step if it takes a batch without conversion."""
        repeated = self._repeated
        return repeated if repeated is not None and repeated.takes(x, y) else None

    def step(self, x: Any, y: Any, copied: Mapping[str, CopiedArray] | None = None) -> float:
        """Do a step and return its loss; parts of the batch may have been copied to devices."""
        repeated = self.repeated_for(x, y)
        if repeated is not None:
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
        if not self._model.samples({name: value.shape for name, value in values.items()}):
            raise ArgumentError("the batch has no samples", where="x")
        compiled = self._compiled_for(values, target)
        target, prediction = self._checked_target(values, target)
        made = self._called(compiled, partial(_call, compiled, self._given(values, target)), is_new=is_new)
        loss = self._finished(made, lambda _: values, None, target)
        self._repeated = RepeatedStep(compiled, self._model, values, target, prediction)
        return loss

    def _called(
        self, compiled: CompiledModel | ClusterStep, call: Callable[[], dict[str, Array]], *, is_new: bool
    ) -> dict[str, Array]:
        """Return the results of a step; copy the state meanwhile if that is due; return to a copy if it is lost."""
        self._predicted = None
        state = compiled.carried_state if isinstance(compiled, CompiledModel) else None
        if state is None:
            return call()
        try:
            return self.snapshots.call(call, state, self._model, is_new=is_new)
        except ExecutionError as error:
            self._recover(state, error)
            raise

    def _finished(
        self, made: Mapping[str, Array], values: Callable[[Any], Mapping[str, Array]], x: Any, target: Array
    ) -> float:
        """Count a step with these results; return its loss, or raise if that is not finite."""
        loss, norm = float(made[LOSS]), float(made[NORM])
        if not math.isfinite(loss) or not math.isfinite(norm):
            given = self._given(values(x), target)
            self._check_weight(given, target)
            raise self._not_finite(given, loss)
        self.last_loss = loss
        self._steps += 1
        self._model.steps_done = self._steps
        return loss

    def _given(self, values: Mapping[str, Array], target: Array) -> dict[str, Array]:
        """Return the inputs of a step."""
        scalars = self._model.groups.scalars(self._steps)
        given = {**values, TARGET: target}
        given |= {name: np.array(number, np.float32) for name, number in scalars.items()}
        if self._model.has_dropout:
            given[SEED] = mixed_seed(self._seed, self._steps)
        return given

    def _check_weight(self, given: Mapping[str, Array], target: Array) -> None:
        """Raise `ArgumentError` if no sample of a batch counts, so that it has no loss."""
        names = [each.name for each in self._model.batch_inputs]
        shape = self._model.prediction_shape({name: given[name].shape for name in names})
        if not loss_on_host(self._model.loss, np.zeros(shape, np.float32), target)[1]:
            raise ArgumentError(
                f"no sample counts in step {self._steps + 1}: labels are ignored, or of weight 0; nothing is updated",
                where="y",
                hint="Leave the batch out",
            )

    def _not_finite(self, given: Mapping[str, Array], loss: float) -> NotFiniteError:
        held = self._compiled.carried() if self._compiled is not None else {}
        found = first_not_finite(self._model, {**held, **given}, self._recipe.used_platform())
        what = "the loss" if not math.isfinite(loss) else "a gradient"
        return NotFiniteError(
            f"{what} is not finite in step {self._steps + 1}; nothing is updated",
            task=found,
            hint="Check the data of this batch, lower the learning rate, or give clip_norm",
        )

    # --- failures ---------------------------------------------------------------------------------

    def _recover(self, state: CarriedState, error: ExecutionError) -> None:
        """After a failed step whose state is lost, continue from its last snapshot; raise an error with its step."""
        held, snapshot = state.memory().values(), self.snapshots.last
        if snapshot is None or not state.is_lost or not any(isinstance(each, ResidentArray) for each in held):
            return
        failed = self._steps + 1
        self._values |= {name: np.array(value) for name, value in snapshot.values.items()}
        self._steps = snapshot.steps
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
        lost = self._compiled.lost_devices() if isinstance(self._compiled, CompiledModel) else ()
        for each in (self._compiled, self._predictor):
            if each is not None:
                with suppress(Exception):  # of a device that is lost
                    each.close()
        self._compiled = self._predictor = self._repeated = None
        left = self._recipe.without_devices(lost)
        if left is None:
            return ()
        self._recipe = left
        return lost

    # --- preparation ------------------------------------------------------------------------------

    def _compiled_for(self, values: Mapping[str, Array], target: Array) -> CompiledModel | ClusterStep:
        """Return the compiled step for a batch; at the first one, or the first with another kind of target, make it."""
        dtype = TARGET_DTYPES.get(target.dtype.kind)
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
        if not isinstance(planner, SplitPlanner) or not self._recipe.compares_runs:
            return
        target, _ = self._checked_target(values, target)
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

    def _checked_target(self, values: Mapping[str, Array], target: Array) -> tuple[Array, tuple[int, ...]]:
        """Return a target that fits in the dtype of steps, and the shape of the prediction."""
        shapes = {name: value.shape for name, value in values.items()}
        key = tuple(shapes.values())
        if key not in self._predictions:
            self._predictions[key] = self._model.prediction_shape(shapes)
        prediction = self._predictions[key]
        return checked_target(self._model.loss, target, self._model.target_dtype, prediction), prediction

    # --- inference --------------------------------------------------------------------------------

    def predict(self, x: Any) -> dict[str, Array]:
        """Compute the model with its present parameters."""
        values, _ = batch_of(x, None, self._model.batch_inputs)
        if self._predictor is None:
            self._predictor = self._recipe.predictor(self._left_out or ())
        if self._predicted is None:
            names = {each.name for each in self._predictor.inputs}
            self._predicted = {name: value for name, value in self.state().items() if name in names}
        return self._predictor({**self._predicted, **values})

    # --- state ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Array]:
        """Return copies of the parameters and the optimiser's state by name."""
        held = {} if self._compiled is None else self._compiled.carried()
        return {name: np.array(value) for name, value in {**self._values, **held}.items()}

    def restore(self, values: Mapping[str, Array], steps: int, seed: int) -> None:
        """Continue with another state, after a number of steps."""
        carried = set(self._model.carried.values())
        self._values = {name: value for name, value in self._values.items() if name not in carried} | dict(values)
        self._steps, self._seed, self._predicted = steps, seed, None
        if self._compiled is not None:
            self._reset()

    def _take_values(self) -> None:
        """Take the state out of the compiled model, and close that."""
        if self._compiled is not None:
            self._values |= self._compiled.carried()
            self.snapshots.drop()
            self._compiled.close()
            self._compiled = self._repeated = None

    def _reset(self) -> None:
        assert self._compiled is not None
        self._model.steps_done = self._steps
        self.snapshots.drop()
        values = self._carried_values()
        self._compiled.reset(**values)
        self.snapshots.keep(self._steps, values)

    def _carried_values(self) -> dict[str, Array]:
        self._values[PARITY] = np.array(self._steps % 2, np.float32)
        names = set(self._model.carried.values())
        return {name: value for name, value in self._values.items() if name in names}

    def close(self) -> None:
        """Release all memory and the devices."""
        self.snapshots.drop()
        for each in (self._compiled, self._predictor):
            if each is not None:
                each.close()


def _call(compiled: CompiledModel | ClusterStep, given: Mapping[str, Array]) -> dict[str, Array]:
    """Call a step with its inputs in the model's order, which is the quickest call."""
    return compiled(*(given[each.name] for each in compiled.inputs if each.name in given))
