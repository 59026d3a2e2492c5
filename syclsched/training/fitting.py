# SPDX-License-Identifier: Apache-2.0
"""Training loop: steps with all batches of some epochs, with progress and a record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.progress import Progress, shown
from syclsched.training.loading.batches import LoadedBatches

if TYPE_CHECKING:
    from syclsched.devices.memory.resident_array import CopiedArray
    from syclsched.execution.runner.input_copies import InputCopies
    from syclsched.training.repeated_step import RepeatedStep
    from syclsched.training.session import TrainingSession

Array = np.ndarray[Any, Any]
#: A step with x, y and the parts of them that are on devices already, which returns the loss.
Step: TypeAlias = "Callable[[Any, Any, Mapping[str, CopiedArray] | None], float]"


@dataclass(frozen=True, slots=True)
class TrainingRecord:
    """The record of `Trainer.fit`."""

    losses: tuple[float, ...] = field(repr=False)  # of each step
    epochs: tuple[float, ...]  # mean loss of each epoch
    samples_per_s: float  # over all steps but the first
    seconds: float  # with data loading
    interrupted: bool = False  # by Ctrl-C


def fit(
    session: TrainingSession,
    step: Step,
    batches: Iterable[Any],
    epochs: int,
    progress: Progress | bool | None,
    after_step: Callable[[int, float], object] | None,
) -> TrainingRecord:
    """Train on batches; see `Trainer.fit`."""
    if not isinstance(epochs, int | np.integer) or epochs < 1:
        raise ArgumentError(f"epochs is {epochs!r}, expected a whole number, at least 1", where="fit()")
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
    done = session.steps
    with shown("train", progress) as tell:
        try:
            for epoch in range(epochs):
                starts.append(len(losses))
                for loss, x in _steps_of(session, step, batches):
                    losses.append(loss)
                    done = session.steps
                    if len(losses) == 1:
                        first_s = time.perf_counter()
                    else:
                        samples += _samples(x)
                    if after_step is not None:
                        after_step(session.steps, losses[-1])
                    if tell is not None:
                        rate = samples / max(time.perf_counter() - first_s, 1e-9)
                        text = f"epoch {epoch + 1}/{epochs}, loss {losses[-1]:.4g}, {rate:,.0f} samples/s"
                        tell(len(losses), per_epoch * epochs, text)
                if len(losses) == starts[-1]:
                    raise ArgumentError("there are no batches", where=f"fit(), epoch {epoch + 1}")
        except KeyboardInterrupt:
            interrupted = True
            if session.steps == done + 1:  # it came at the end of a step
                losses.append(session.last_loss)
                if after_step is not None:
                    after_step(session.steps, losses[-1])
    end_s = time.perf_counter()
    parts = np.split(np.array(losses), starts[1:])
    means = tuple(float(each.mean()) for each in parts if each.size)
    rate = samples / (end_s - first_s) if samples else 0.0
    return TrainingRecord(tuple(losses), means, rate, end_s - begun_s, interrupted)


def _steps_of(
    session: TrainingSession, step: Step, batches: Iterable[Any]
) -> Iterator[tuple[float, tuple[Array, ...]]]:
    """Do a step with each batch, and yield its loss and inputs; the next batch is loaded and copied meanwhile."""
    with ExitStack() as held, closing(LoadedBatches(batches, session.model.batch_inputs, "fit()")) as loaded:
        of: RepeatedStep | None = None
        copies: InputCopies | None = None
        for x, y, copied in loaded:
            repeated = session.repeated_for(x, y)
            if repeated is None or repeated is not of:
                held.close()  # a plan for another shape may need the memory
                of = repeated
                copies = None if repeated is None else repeated.input_copies()
                if copies is not None:
                    held.callback(copies.close)
            if repeated is not None and copies is not None:
                loaded.copy_next(partial(repeated.copy, copies))
            yield step(x, y, copied), x


def _samples(x: Any) -> int:
    parts = list(x.values()) if isinstance(x, Mapping) else x if isinstance(x, tuple) else (x,)
    shape = np.shape(parts[0]) if parts else ()
    return shape[0] if shape else 1
