# SPDX-License-Identifier: Apache-2.0
"""Values that a model carries from call to call, such as a cache of keys and values, in memory that stays on a device.

All bound plans of the model that can address this memory update it in place; the others copy it before and after a run.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from syclsched.errors import ArgumentError, ExecutionError, SyclschedError
from syclsched.frontends.onnx.model_file.onnx_model import DeclaredValue
from syclsched.onnx.lru_cache import BoundModel
from syclsched.onnx.specialised import Array, Shapes

if TYPE_CHECKING:
    from syclsched.execution import Runner

#: Customary names of a cache: ``present.0.key`` is ``past_key_values.0.key`` of the next call.
_CUSTOMARY: Final = re.compile(r"present(_key_values|_key|_value)?(?=[._\d]|$)")


def carried_pairs(
    carried: Mapping[str, str] | bool, inputs: Sequence[DeclaredValue], outputs: Sequence[DeclaredValue]
) -> dict[str, str]:
    """Return for each carried output the input of the next call, as given or by their customary names."""
    names, made = {each.name for each in inputs}, [each.name for each in outputs]
    if carried is True:
        found: dict[str, str] = {}
        for output in made:
            rest = _CUSTOMARY.sub("", output, count=1) if _CUSTOMARY.match(output) else None
            kind = "" if rest is None else output[: len(output) - len(rest)].removeprefix("present")
            candidates = [] if rest is None else [f"past{kind}{rest}", f"past_key_values{rest}"]
            found.update((output, name) for name in candidates[::-1] if name in names)
        if not found:
            raise ArgumentError(
                "no output is named as the next call's input: present* and past*",
                where="carried",
                hint="Give the names: carried={output: input}",
            )
        return found
    pairs = dict(carried or {})
    for output, name in pairs.items():
        if output not in made or name not in names:
            what, wrong, known = ("input", name, names) if output in made else ("output", output, made)
            raise ArgumentError(
                f"the model has no {what} {wrong!r}", where="carried", hint=f"It has {', '.join(sorted(known))}"
            )
    if len(set(pairs.values())) < len(pairs):
        raise ArgumentError("two outputs are carried to one input", where="carried")
    return pairs


class CarriedState:
    """The carried values of one compiled model, and where its bound plans find them.

    Calls take turns: each begins with the values that the last one left.
    """

    def __init__(self, pairs: Mapping[str, str], where: str) -> None:
        self.pairs = dict(pairs)
        self.names = tuple(pairs.values())
        self._output_of = {name: output for output, name in pairs.items()}
        self._where = where
        self._arrays: dict[str, Array] = {}
        self._turn = threading.Lock()
        self._lost = False
        #: Increases when values move to other memory.
        self.version = 0
        #: Whether the values are the first ones, so that calls may change their shapes.
        self._is_new = True
        #: Names of values that each call makes in new memory, as their shapes change.
        self._loose: set[str] = set()
        #: For each bound plan, the arrays of its graph that it cannot update in place, with their inputs.
        self._copied: WeakKeyDictionary[Runner, dict[str, str]] = WeakKeyDictionary()

    @property
    def shapes(self) -> Shapes:
        """The shapes of the values; empty before the first call, and after a reset."""
        return {} if self._is_new else {name: value.shape for name, value in self._arrays.items()}

    def changes_shape(self, name: str) -> bool:
        """Return whether each call may leave a value of another shape."""
        return name in self._loose

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the values for one call; after a failed one they are lost."""
        with self._turn:
            if self._lost:
                raise ExecutionError(
                    "a call failed while it updated the values that are carried from call to call",
                    where=self._where,
                    hint="Call reset(), and begin again",
                )
            try:
                yield
            except SyclschedError as error:
                self._lost = isinstance(error, ExecutionError)  # others are raised before anything runs
                raise
            except BaseException:
                self._lost = True
                raise

    def reset(self, values: Mapping[str, Any]) -> None:
        """Set values, the others to 0."""
        with self._turn:
            unknown = [name for name in values if name not in self._output_of]
            if unknown:
                raise ArgumentError(
                    f"{unknown[0]!r} is not carried", where=self._where, hint=f"Carried are {', '.join(self.names)}"
                )
            given = {name: np.asarray(value) for name, value in values.items()}
            for name in self.names:
                held, value = self._arrays.get(name), given.get(name)
                if value is None and name in self._loose:
                    self._arrays.pop(name, None)
                    self._move()
                elif held is not None and (value is None or (held.shape, held.dtype) == (value.shape, value.dtype)):
                    held[...] = 0 if value is None else value
                elif value is not None:
                    self._arrays[name] = value.copy()
                    self._move()
            self._is_new, self._lost = not given, False

    def _move(self) -> None:
        self._copied.clear()
        self.version += 1

    def run(self, bound: BoundModel, values: Mapping[str, Any]) -> dict[str, Array]:
        """Run a bound plan on the values; in a turn."""
        specialised = bound.specialised
        copied = self._copied_of(bound)
        loose = [name for name in self.names if name not in specialised.carried]
        given = specialised.given({**values, **{name: self._arrays[name] for name in loose}})
        given |= {array: self._arrays[name] for array, name in copied.items()}
        found = bound.runner(given, (*specialised.fetched, *copied))
        for array, name in copied.items():
            np.copyto(self._arrays[name], found[array])
        results = specialised.results(found)
        for name in loose:
            self._arrays[name] = results[self._output_of[name]]
        self._is_new = False
        return {name: value for name, value in results.items() if name not in self.pairs}

    def can_repeat(self, bound: BoundModel) -> bool:
        """Return whether calls need nothing but a run of the plan."""
        return self._copied.get(bound.runner) == {} and set(self.names) <= set(bound.specialised.carried)

    def copies(self, bound: BoundModel) -> dict[str, Array]:
        """Return copies of the values by array of the graph, for runs that must not change them; in a turn."""
        self._copied_of(bound)
        inputs = bound.specialised.inputs
        return {inputs[name]: self._arrays[name].copy() for name in self.names if name in inputs}

    def _copied_of(self, bound: BoundModel) -> dict[str, str]:
        """Return the values to copy before and after a run of a plan; let it update the others in place."""
        found = self._copied.get(bound.runner)
        if found is not None:
            return found
        specialised, runner, found = bound.specialised, bound.runner, {}
        for name in self.names:
            wanted, dtype = self._wanted(bound, name)
            held = self._arrays.get(name)
            if held is not None and (held.shape, held.dtype) != (wanted, dtype):
                held = None
                self._move()  # plans for other shapes have the memory of before
            array = specialised.carried.get(name)
            if array is None:
                self._loose.add(name)
                self._arrays[name] = np.zeros(wanted, dtype) if held is None else held
                continue
            place = runner.zero_copy_inputs.share(runner.plan, array, held) if array in runner.plan.residents else None
            if place is None:
                found[array] = name
                place = np.zeros(wanted, dtype) if held is None else held
            self._arrays[name] = place
        self._copied[runner] = found
        return found

    def _wanted(self, bound: BoundModel, name: str) -> tuple[tuple[int, ...], Any]:
        array = bound.specialised.inputs.get(name)
        if array is None:
            return bound.specialised.shapes[name], np.dtype("float32")
        declared = bound.specialised.graph.arrays[array]
        return declared.shape, np.dtype(declared.dtype)
