# SPDX-License-Identifier: Apache-2.0
"""Values that a model carries from call to call, such as a cache of keys and values, in memory that stays on a device.

All bound plans of the model that can address this memory update it in place. A plan that keeps a value in other memory
takes it there; one that keeps it nowhere copies it before and after a run. Further replicas of a value, which a plan
updates alike, last until another plan runs that has none of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from syclsched.devices.memory.resident_array import InputValue, host_value, set_value
from syclsched.errors import ArgumentError, ExecutionError, OpenDimensionError, SyclschedError, check_mapping
from syclsched.frontends.onnx.model_file.dtypes import carrier, numpy_dtype
from syclsched.frontends.onnx.model_file.onnx_model import DeclaredValue, Dimension
from syclsched.oneapi.fork_check import LockUnlessForked
from syclsched.onnx.lru_cache import BoundModel
from syclsched.onnx.specialised import Array, Shapes

if TYPE_CHECKING:
    from syclsched.execution import Runner
    from syclsched.onnx.model import OnnxModel

#: Customary names of a cache: ``present.0.key`` is ``past_key_values.0.key`` of the next call.
_CUSTOMARY: Final = re.compile(r"present(_key_values|_key|_value)?(?=[._\d]|$)")


def carried_pairs(
    carried: Mapping[str, str] | bool, inputs: Sequence[DeclaredValue], outputs: Sequence[DeclaredValue]
) -> dict[str, str]:
    """Return for each carried output the input of the next call, as given or by their customary names."""
    names, made = {each.name: each for each in inputs}, {each.name: each for each in outputs}
    if carried is True:
        found = customary_pairs(inputs, outputs)
        if not found:
            raise ArgumentError(
                "no output is named as the next call's input: present* and past*",
                where="carried",
                hint="Give the names: carried={output: input}",
            )
        return found
    check_mapping("carried", carried or {}, "Give {output: input of the next call}, or True for those with such names")
    pairs = dict(carried or {})
    for output, name in pairs.items():
        if output not in made or name not in names:
            what, wrong, known = ("input", name, names) if output in made else ("output", output, made)
            raise ArgumentError(
                f"the model has no {what} {wrong!r}", where="carried", hint=f"It has {', '.join(sorted(known))}"
            )
    if len(set(pairs.values())) < len(pairs):
        raise ArgumentError("two outputs are carried to one input", where="carried")
    for output, name in pairs.items():
        if not _may_be_equal(made[output].dimensions, names[name].dimensions):
            raise ArgumentError(
                f"the output {output!r} has the shape {made[output].shape_text}, and the input {name!r} takes "
                f"{names[name].shape_text}",
                where="carried",
                hint="Carry an output to an input of its shape",
            )
    return pairs


def _may_be_equal(one: Sequence[Dimension] | None, other: Sequence[Dimension] | None) -> bool:
    """Return whether declared shapes do not contradict each other."""
    if one is None or other is None:
        return True
    known = ((a, b) for a, b in zip(one, other, strict=False) if isinstance(a, int) and isinstance(b, int))
    return len(one) == len(other) and all(a == b for a, b in known)


def customary_pairs(inputs: Sequence[DeclaredValue], outputs: Sequence[DeclaredValue]) -> dict[str, str]:
    """Return for outputs the inputs of the next call that they are by their customary names."""
    names, found = {each.name for each in inputs}, dict[str, str]()
    for output in (each.name for each in outputs):
        if _CUSTOMARY.match(output):
            rest = _CUSTOMARY.sub("", output, count=1)
            kind = output[: len(output) - len(rest)].removeprefix("present")
            candidates = f"past_key_values{rest}", f"past{kind}{rest}"
            found.update((output, name) for name in candidates if name in names)
    return found


class CarriedState:
    """The carried values of one compiled model, and where its bound plans find them.

    Calls take turns: each begins with the values that the last one left.
    """

    def __init__(self, pairs: Mapping[str, str], model: OnnxModel, first: Mapping[str, Array] | None = None) -> None:
        self.pairs = dict(pairs)
        self.names = tuple(pairs.values())
        self._output_of = {name: output for output, name in pairs.items()}
        self._model, self._where = model, f"model {model.name!r}"
        self._elements = {each.name: each.dtype or "float32" for each in model.inputs if each.name in self._output_of}
        #: The values with which calls begin after a reset that gives none; those of the others are 0.
        self._first = {name: _converted(name, value, self._elements[name]) for name, value in (first or {}).items()}
        #: The values, in the dtypes of graphs.
        self._arrays: dict[str, InputValue] = {}
        #: Values given by a reset, until the next call puts them where its plan finds them.
        self._given = dict(self._first)
        #: Names of the values that calls left or a reset gave; the others are 0, in the shapes that the next call has.
        self._known = frozenset(self._first)
        self.lock = LockUnlessForked(self._where)
        self._lost = False
        #: Whether the present turn may have begun to change the values.
        self._begun = False
        self._turn, self._reading = _Turn(self, runs=True), _Turn(self, runs=False)
        #: Increases when values move to other memory.
        self.version = 0
        #: For values that grow in memory of a larger extent the axis and how much of it counts.
        self._grown: dict[str, tuple[int, int]] = {}
        #: Names of values that each call makes in new memory, as their shapes change.
        self._loose: set[str] = set()
        #: For each bound plan, the arrays of its graph that it cannot update in place, with their model inputs.
        self._copied: WeakKeyDictionary[Runner, dict[str, str]] = WeakKeyDictionary()
        #: Names of the values that the last run did not update in place, if it did others: they tell nothing of those.
        self._unseen: frozenset[str] = frozenset()

    @property
    def shapes(self) -> Shapes:
        """The shapes of the values that calls left or a reset gave."""
        return {name: self._shape(name, self._given.get(name, self._arrays.get(name))) for name in self._known}

    def _shape(self, name: str, held: InputValue | Array | None) -> tuple[int, ...]:
        """Return the shape of a value: that of its memory, or of the part that counts."""
        assert held is not None
        whole = tuple(held.shape)
        if name not in self._grown:
            return whole
        axis, extent = self._grown[name]
        return (*whole[:axis], extent, *whole[axis + 1 :])

    def grow(self, bound: BoundModel, values: Mapping[str, Any]) -> None:
        """Note how much of values that grow counts after a run of a plan."""
        for name, (axis, total) in bound.specialised.growing.items():
            self._grown[name] = axis, int(values[total])

    @property
    def is_lost(self) -> bool:
        """Whether a call failed while it updated the values."""
        return self._lost

    def memory(self) -> dict[str, InputValue]:
        """Return the memory in which calls find the values that are there; no call may be in flight."""
        return {name: self._arrays[name] for name in self.names if name in self._arrays and name not in self._given}

    def values(self) -> dict[str, Array]:
        """Return copies of the values that calls left or a reset gave."""
        with self.reading():
            held = {name: self._given[name] if name in self._given else self._arrays[name] for name in self._known}
            return {
                name: self._part(name, host_value(held[name])).astype(numpy_dtype(self._elements[name]))
                for name in self.names
                if name in held
            }

    def turn(self) -> AbstractContextManager[None]:
        """Hold the values for one call; if it fails after its run began, they are lost."""
        return self._turn

    def reading(self) -> AbstractContextManager[None]:
        """Hold the values for readers only."""
        return self._reading

    def expect_run(self) -> None:
        """In a turn, note that nothing runs before `run`: a plan is made first."""
        self._begun = False

    def _begin_turn(self, *, runs: bool) -> None:
        self.lock.acquire()
        self._begun = runs
        if self._lost:
            self.lock.release()
            raise ExecutionError(
                "a call failed while it updated the values that are carried from call to call",
                where=self._where,
                hint="Call reset(), and begin again; in training, restore() a checkpoint",
            )

    def _end_turn(self, error: BaseException | None) -> None:
        try:
            if error is not None:
                # Other errors of ours are raised before anything runs; Ctrl-C and those of users come at any time.
                ran = isinstance(error, ExecutionError) or (self._begun and not isinstance(error, SyclschedError))
                self._lost = ran and not self._is_whole()
        finally:
            self.lock.release()

    def _is_whole(self) -> bool:
        """Return whether the values are those of the last whole call, and can be read."""
        try:
            return self._model.is_whole(self._value_after_failure)
        except ExecutionError:
            return False

    def _value_after_failure(self, name: str) -> Array | None:
        """Return a value as the failed run left it; None if that is not known."""
        return None if name in self._unseen or name not in self._arrays else host_value(self._arrays[name])

    def reset(self, values: Mapping[str, Any]) -> None:
        """Set values, the others to their default values or 0."""
        with self.lock:
            given = {**self._first, **self._checked(values)}
            self._given = {}
            self._grown = {}
            for name in self.names:
                held, value = self._arrays.get(name), given.get(name)
                if held is not None and (name not in self._loose if value is None else held.shape == value.shape):
                    set_value(held, 0 if value is None else value)
                    continue
                if value is not None:
                    self._given[name] = value
                if held is not None:
                    del self._arrays[name]
                    self._move()
            self._drop_replicas()
            self._known, self._lost = frozenset(given), False

    def _checked(self, values: Mapping[str, Any]) -> dict[str, Array]:
        """Return copies of values in the dtypes of graphs, if they fit the model."""
        unknown = [name for name in values if name not in self._output_of]
        if unknown:
            raise ArgumentError(
                f"{unknown[0]!r} is not carried", where=self._where, hint=f"Carried are {', '.join(self.names)}"
            )
        given = {name: _converted(name, value, self._elements[name]) for name, value in values.items()}
        with suppress(OpenDimensionError):  # calls may tell the others
            self._model.full_shapes({name: value.shape for name, value in given.items()})
        return given

    def _drop_replicas(self, kept: Collection[str] = ()) -> None:
        """Drop replicas of values before the values change without them."""
        dropped = self._arrays.keys() - self._output_of.keys() - set(kept)
        for name in dropped:
            del self._arrays[name]
        if dropped:
            self._move()

    def _move(self) -> None:
        self._copied.clear()
        self.version += 1

    def run(self, bound: BoundModel, values: Mapping[str, Any]) -> dict[str, Array]:
        """Run a bound plan on the values; in a turn."""
        specialised = bound.specialised
        self._drop_replicas(specialised.replicas)
        copied = self._copied_of(bound)
        is_mixed = len(copied) < len(specialised.carried)
        self._unseen = frozenset(copied.values()) if is_mixed else frozenset()
        loose = [name for name in self.names if name not in specialised.carried]
        given = specialised.given({**values, **{name: self._arrays[name] for name in loose}})
        given |= {array: host_value(self._arrays[name]) for array, name in copied.items()}
        self._begun = True
        found = bound.runner(given, (*specialised.fetched, *copied))
        for array, name in copied.items():
            set_value(self._arrays[name], found[array])
        results = specialised.results(found)
        for name in loose:
            self._arrays[name] = np.asarray(results[self._output_of[name]], carrier(self._elements[name]))
            self._grown.pop(name, None)
        if loose:
            self._move()
        self.grow(bound, values)
        self._known = frozenset(self.names)
        return {name: value for name, value in results.items() if name not in self.pairs}

    def can_repeat(self, bound: BoundModel) -> bool:
        """Return whether calls need nothing but a run of the plan."""
        return self._copied.get(bound.runner) == {} and set(self.names) <= set(bound.specialised.carried)

    def copies(self, bound: BoundModel) -> dict[str, Array]:
        """Return copies of the values by array of the graph, for runs that must not change them; in a turn."""
        found, inputs = {}, bound.specialised.inputs
        for name in (*self.names, *bound.specialised.replicas):
            if name in inputs:
                value = self._value(bound, name)
                found[inputs[name]] = self._zeros(bound, name) if value is None else host_value(value).copy()
        return found

    def _copied_of(self, bound: BoundModel) -> dict[str, str]:
        """Return the values to copy before and after a run of a plan; let it update the others in place."""
        found = self._copied.get(bound.runner)
        if found is not None:
            return found
        specialised, runner, found = bound.specialised, bound.runner, {}
        for name in (*self.names, *specialised.replicas):
            value, held = self._value(bound, name), self._arrays.get(name)
            if held is not None and held is not value:
                held = None
                self._move()  # plans for other shapes have the memory of before
            array, place = specialised.carried.get(name), held
            if array is None:
                self._loose.add(name)
                place = self._zeros(bound, name) if held is None else host_value(held)
            elif array in runner.plan.residents:
                place = self._resident(runner, array, held)
            else:
                found[array] = name
                place = self._zeros(bound, name) if held is None else held
            if value is not None and value is not place:
                set_value(place, host_value(value))
            if held is not None and held is not place:
                self._move()
            self._arrays[name] = place
            self._given.pop(name, None)
        self._copied[runner] = found
        return found

    @staticmethod
    def _resident(runner: Runner, array: str, held: InputValue | None) -> InputValue:
        """Return the memory in which a plan keeps a value: that where it is, if kernels can address it."""
        found = None if held is None else runner.zero_copy_inputs.share(runner.plan, array, held)
        return runner.zero_copy_inputs.own(runner.plan, array) if found is None else found

    def _value(self, bound: BoundModel, name: str) -> InputValue | None:
        """Return the value with which a run of a plan begins; None if that is 0."""
        original = bound.specialised.replicas.get(name, name)
        held = self._arrays.get(name, self._arrays.get(original))
        value, wanted = self._given.get(original, held), bound.specialised.shapes[original]
        if value is None or value.shape == wanted:
            return value
        grown = self._grown_to(original, host_value(value), wanted, is_growing=original in bound.specialised.growing)
        if grown is not None:
            return grown
        if name in self._known:
            raise ArgumentError(
                f"the carried value has the shape {value.shape}, and this call needs {wanted}",
                where=f"input {name!r} of {self._where}",
                hint="Call reset() to begin anew",
            )
        return None

    def _part(self, name: str, value: Array) -> Array:
        """Return the part of a value in memory that counts."""
        return value[tuple(map(slice, self._shape(name, value)))]

    def _grown_to(self, name: str, value: Array, wanted: tuple[int, ...], *, is_growing: bool) -> Array | None:
        """Return the counting part of a value in an array of a plan's shape; None if it does not fit."""
        part = self._part(name, value)
        if name not in self._known or (part.shape != wanted and not is_growing):
            return None
        if any(n > m for n, m in zip(part.shape, wanted, strict=True)):
            return None
        made = np.zeros(wanted, value.dtype)
        made[tuple(map(slice, part.shape))] = part
        return made

    def _zeros(self, bound: BoundModel, name: str) -> Array:
        name = bound.specialised.replicas.get(name, name)
        return np.zeros(bound.specialised.shapes[name], carrier(self._elements[name]))


class _Turn:
    """Context manager of one call; made by hand, as a generator takes thrice as long."""

    __slots__ = ("_runs", "_state")

    def __init__(self, state: CarriedState, *, runs: bool) -> None:
        self._state, self._runs = state, runs

    def __enter__(self) -> None:
        self._state._begin_turn(runs=self._runs)

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._state._end_turn(error)


def _converted(name: str, value: Any, element: str) -> Array:
    """Return a copy of a value, rounded to a type of elements, in the dtype that graphs hold them in."""
    dtype = numpy_dtype(element)
    try:
        if hasattr(value, "dtype"):
            return np.asarray(value).astype(dtype, casting="same_kind").astype(carrier(element))
        return np.asarray(value, dtype).astype(carrier(element))
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(
            f"it cannot be converted to {element}: {error}", where=f"input {name!r}", hint=f"Give an array of {element}"
        ) from error
