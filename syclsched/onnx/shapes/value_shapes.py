# SPDX-License-Identifier: Apache-2.0
"""Input values that decide shapes within a model: part of the plan's key, or observed to bound extents."""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import numpy as np

from syclsched.errors import ExecutionError, RemadeModelWarning, ValueNeededError
from syclsched.frontends.onnx.observed_extents import ObservedExtents, UnseenExtentError
from syclsched.onnx.model import OnnxModel
from syclsched.onnx.specialised import Array, Shapes

#: Sets of input shapes whose extents are remembered.
_KEPT: Final = 64


class ValueShapes:
    """Input values that decide shapes within a model: the observations of calls.

    If ``bounded``, plans have upper bounds of extents, and runs say if values exceed them. ``carried`` has, for outputs
    that are carried from call to call, the input of the next call.
    """

    def __init__(self, model: OnnxModel, *, bounded: bool, carried: Mapping[str, str]) -> None:
        self._model, self._is_bounded, self._carried = model, bounded, carried
        #: Inputs for each value of which the model is planned.
        self.inputs: tuple[str, ...] = ()
        #: Inputs whose values decide extents with upper bounds.
        self._observed_inputs: tuple[str, ...] = ()
        self._observed: OrderedDict[tuple[Any, ...], ObservedExtents] = OrderedDict()
        #: Extents for which no plan was made yet: those before them, and the thread whose call has them.
        self._untried: dict[tuple[Any, ...], tuple[ObservedExtents | None, int]] = {}
        self._lock = threading.Lock()

    def key(self, shapes: tuple[Any, ...], values: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the key of the plan for input shapes and values."""
        observed = self._observed.get(shapes) if self._observed else None
        if observed is not None:
            shapes = (*shapes, observed.version)
        if not self.inputs:
            return shapes
        return (*shapes, *(np.asarray(values[name]).tobytes() for name in self.inputs if name in values))

    def planned_by(self, values: Mapping[str, Any]) -> dict[str, Array]:
        """Return the values for which the model is planned."""
        return {name: np.asarray(values[name]) for name in self.inputs if name in values}

    def observed(self, shapes: tuple[Any, ...]) -> ObservedExtents | None:
        """Return the extents observed for input shapes; None if they are not bounded."""
        if not self._is_bounded:
            return None
        with self._lock:
            found = self._observed.get(shapes)
            return ObservedExtents() if found is None else found

    def version(self, shapes: tuple[Any, ...]) -> int:
        """Return how often plans for input shapes have changed."""
        found = self._observed.get(shapes)
        return 0 if found is None else found.version

    def learn(
        self,
        error: ValueNeededError,
        key: tuple[Any, ...],
        version: int,
        shapes: Callable[[], Shapes],
        values: Mapping[str, Any],
    ) -> None:
        """Learn from an import that needs values; raise the error if nothing is learnt."""
        if isinstance(error, UnseenExtentError) and set(error.inputs) <= values.keys():
            self._add_observed(error)
            self.observe(key, version, shapes, values, error)
            return
        if not set(error.inputs) <= values.keys():
            raise error
        self._plan_by(error.inputs, error)

    def observe(
        self,
        key: tuple[Any, ...],
        version: int,
        shapes: Callable[[], Shapes],
        values: Mapping[str, Any],
        error: ValueNeededError | None = None,
        deciding: Iterable[str] = (),
    ) -> None:
        """Compute the extents that follow from values, which the plan of a version does not have.

        If the values say nothing new, the model is planned for each value from now on, also of further inputs that are
        ``deciding``; unless it is wrong for these values.
        """
        if not self.is_new(key, version, shapes, values):  # such as in a branch that this call does not take
            names = (*self._observed_inputs, *(name for name in deciding if name in values))
            self._check(key, shapes, values, names)
            self._plan_by(names, error)

    def _check(
        self, key: tuple[Any, ...], shapes: Callable[[], Shapes], values: Mapping[str, Any], names: Iterable[str]
    ) -> None:
        """Raise if the model is wrong for values of inputs, such as with extents that must be the same and differ."""
        found = self._observed.get(key)
        known = {name: np.asarray(values[name]) for name in (*self.inputs, *names) if name in values}
        with suppress(ValueNeededError):
            self._model.observe(shapes(), known, self._carried, ObservedExtents() if found is None else found.copy())

    def is_new(
        self, key: tuple[Any, ...], version: int, shapes: Callable[[], Shapes], values: Mapping[str, Any]
    ) -> bool:
        """Compute the extents that follow from values; return whether the plan of a version does not have them."""
        with self._lock:
            before = self._observed.get(key)
            if before is not None and before.version != version:
                return True  # another call has done it
            found = ObservedExtents() if before is None else before.copy()  # if it fails, nothing is learnt
            while True:
                names = dict.fromkeys(each for each in (*self.inputs, *self._observed_inputs) if each in values)
                try:
                    known = {name: np.asarray(values[name]) for name in names}
                    self._model.observe(shapes(), known, self._carried, found)
                    break
                except ValueNeededError as needed:
                    if not set(needed.inputs) - names.keys() or not set(needed.inputs) <= values.keys():
                        raise
                    self._add_observed(needed)
            if before is None and not found.version:
                return False
            if found.version != version:
                self._untried.setdefault(key, (before, threading.get_ident()))
            self._observed[key] = found
            self._observed.move_to_end(key)
            while len(self._observed) > _KEPT:
                self._untried.pop(self._observed.popitem(last=False)[0], None)
            return found.version != version

    def confirm(self, key: tuple[Any, ...], version: int) -> None:
        """Note that there is a plan for the extents of a version."""
        if key in self._untried:  # seldom
            with self._lock:
                if self.version(key) == version:
                    self._untried.pop(key, None)

    def discard(self, key: tuple[Any, ...], version: int) -> bool:
        """Forget the extents of a version for which no plan can be made; return whether another call had them."""
        with self._lock:
            if self.version(key) != version:
                return True  # another call has changed them
            before, thread = self._untried.pop(key, (None, None))
            if thread is None:
                return False
            if before is None:
                del self._observed[key]
            else:
                self._observed[key] = before
            return thread != threading.get_ident()

    def _add_observed(self, error: ValueNeededError) -> None:
        self._observed_inputs = (*dict.fromkeys((*self._observed_inputs, *error.inputs)),)

    def _plan_by(self, names: Iterable[str], error: ValueNeededError | None) -> None:
        """Make input values part of the key; warn of floating-point values, which rarely repeat."""
        new = [name for name in dict.fromkeys(names) if name not in self.inputs]
        if not new:
            raise error or ExecutionError(
                "values of its inputs decide extents otherwise than at import", where=f"model {self._model.name!r}"
            )
        self.inputs = (*self.inputs, *new)
        floating = [repr(name) for name in new if self._model.dtype(name).kind == "f"]
        if floating:
            place = "" if error is None else f" at {error.where}"
            warnings.warn(
                f"model {self._model.name!r} is planned and bound anew for every value of {', '.join(floating)}, as "
                f"shapes follow from it{place}; export the model with constant shapes if calls are to be quick",
                RemadeModelWarning,
                stacklevel=2,
            )
