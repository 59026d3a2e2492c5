# SPDX-License-Identifier: Apache-2.0
"""Fast path for training steps whose batches have the same shapes and dtypes.

Parameters, gradients and activations of a step have replaced the interpreter's data in the processor's caches, and each
Python function and object touched before the next step is submitted costs microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from syclsched.frontends.onnx.importing.import_state import SEED
from syclsched.onnx.compiled_model import CompiledModel
from syclsched.training.steps.step_network import TARGET, mixed_seed

if TYPE_CHECKING:
    from syclsched.devices.memory.resident_array import CopiedArray
    from syclsched.execution.runner.input_copies import InputCopies
    from syclsched.training.splitting.cluster_step import ClusterStep
    from syclsched.training.steps.step_model import StepModel

Array = np.ndarray[Any, Any]

#: Predicted time of a batch's copies from which they are made ahead: another thread makes them, at some 0.1 ms.
LEAST_S: Final = 2e-4


class RepeatedStep:
    """The call of a compiled step with batches of one form, without checks that have the same result for all of them.

    ``values`` and ``target`` are a batch of that form, which has been checked.
    """

    def __init__(
        self,
        compiled: CompiledModel | ClusterStep,
        model: StepModel,
        values: Mapping[str, Array],
        target: Array,
        prediction: tuple[int, ...],
    ) -> None:
        self.compiled = compiled
        self._names = tuple(values)
        self._forms = tuple((each.shape, each.dtype) for each in values.values())
        self._target = target.shape, target.dtype
        self._check = model.loss.check_values
        self._prediction = prediction
        self._numbers: Callable[[int], Mapping[str, float]] = model.groups.scalars
        numbers = self._numbers(0)
        #: Inputs of the optimisers, which each step reads anew.
        self._scalars = tuple(np.zeros((), np.float32) for _ in numbers)
        seed = [SEED] if model.has_dropout else []
        self._has_seed = bool(seed)
        given = [*self._names, TARGET, *numbers, *seed]
        wanted = [each.name for each in compiled.inputs if each.name in set(given)]
        #: Of each input of the compiled step its place among those given here; None if they are the same.
        self._places = None if wanted == given else tuple(given.index(name) for name in wanted)

    def takes(self, x: Any, y: Any) -> bool:
        """Return whether a batch needs no conversion and has the form."""
        if type(y) is not np.ndarray or (y.shape, y.dtype) != self._target or not y.flags.c_contiguous:
            return False
        parts = x if type(x) is tuple else (x,)
        if len(parts) != len(self._forms):
            return False
        for part, form in zip(parts, self._forms):  # noqa: B905 - a keyword takes as long as the zip
            if type(part) is not np.ndarray or (part.shape, part.dtype) != form or not part.flags.c_contiguous:
                return False
        return True

    def values(self, x: Any) -> dict[str, Array]:
        """Return the inputs of a batch that it `takes`, by name."""
        return dict(zip(self._names, x if type(x) is tuple else (x,), strict=True))

    def input_copies(self) -> InputCopies | None:
        """Return memory to copy the next batch to devices while a step computes; None if that is not worthwhile."""
        compiled = self.compiled
        return compiled.input_copies((*self._names, TARGET), LEAST_S) if isinstance(compiled, CompiledModel) else None

    def copy(self, copies: InputCopies, x: tuple[Array, ...], y: Array) -> Mapping[str, CopiedArray] | None:
        """Copy a batch to devices, if it `takes` that; return the copies."""
        return copies.copy({**self.values(x), TARGET: y}) if self.takes(x, y) else None

    def run(
        self, x: Any, y: Array, steps: int, seed: int, copied: Mapping[str, CopiedArray] | None = None
    ) -> dict[str, Array]:
        """Do a step with a batch that it `takes`, after a number of earlier ones; return its results.

        Parts of the batch that are on devices already are not copied again.
        """
        self._check(y, self._prediction)
        for array, number in zip(self._scalars, self._numbers(steps).values(), strict=True):
            array[()] = number
        given = (*x, y, *self._scalars) if type(x) is tuple else (x, y, *self._scalars)
        if copied:
            names = (*self._names, TARGET)
            given = (*(copied.get(name, each) for name, each in zip(names, given, strict=False)), *given[len(names) :])
        if self._has_seed:
            given = (*given, mixed_seed(seed, steps))
        if self._places is not None:
            given = tuple(given[place] for place in self._places)
        return self.compiled(*given)
