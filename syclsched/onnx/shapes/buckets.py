# SPDX-License-Identifier: Apache-2.0
"""Buckets of extents: calls with shorter inputs run in the plan of a larger extent, with lengths known at run time."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from syclsched.errors import (
    ArgumentError,
    RemadeModelWarning,
    SyclschedError,
    ValueNeededError,
    check_mapping,
    did_you_mean,
)
from syclsched.frontends.onnx.importing.lengths import EXTENT_INPUT, CountedAxes, CountedSum
from syclsched.kernels.groups import ceil_power_of_two
from syclsched.onnx.call_inputs import CallValues
from syclsched.onnx.model import OnnxModel, fitting_shape
from syclsched.onnx.shapes.growth import Growth, growing_dimensions
from syclsched.onnx.specialised import Shapes

#: For open dimensions by name: extents, a number whose multiples are the extents, or ``"powers of two"``.
GivenBuckets = Mapping[str, "Iterable[int] | int | str"]

#: Bucket of extents that are powers of two.
POWERS: Final = "powers of two"
_WHERE: Final = "buckets"


@dataclass(frozen=True, slots=True)
class _Bucket:
    """The extents of a dimension for which plans are made."""

    extents: tuple[int, ...] = ()  # ascending
    multiple: int | None = None  # neither: powers of two

    def around(self, extent: int) -> int | None:
        """Return the least extent that a plan has and that is not below another; None if there is none."""
        if self.extents:
            return next((each for each in self.extents if each >= extent), None)
        if self.multiple is not None:
            return max(-(-extent // self.multiple), 1) * self.multiple
        return int(ceil_power_of_two(extent))


#: Shapes of a call's values, by name.
_Key = frozenset[tuple[str, tuple[int, ...]]]
#: Least extent of a plan for dimensions that grow.
_LEAST_ROOM: Final = 64


@dataclass(slots=True)
class _Filling:
    """Extents of a plan that may be larger than those of a call."""

    extents: dict[tuple[str, int], int] = field(default_factory=dict)  # by input and axis
    numbers: dict[str, int] = field(default_factory=dict)  # the values of further inputs: the call's extents

    def shape(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape that the plan has for an input of a shape."""
        return tuple(self.extents.get((name, axis), n) for axis, n in enumerate(shape))

    def planned(self, shapes: Shapes) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the plan for inputs of these shapes, with those of further inputs."""
        return {name: self.shape(name, shape) for name, shape in shapes.items()} | dict.fromkeys(self.numbers, ())


class Buckets:
    """The buckets of a model's open dimensions, given as for `syclsched.compile`.

    Inputs that are ``carried`` from call to call keep their extents. ``pairs`` has, for outputs, the inputs of the next
    call that they are; dimensions of these may grow.
    """

    def __init__(
        self,
        given: GivenBuckets,
        model: OnnxModel,
        carried: Iterable[str] = (),
        pairs: Mapping[str, str] | None = None,
    ) -> None:
        check_mapping(_WHERE, given, f"Give {{'batch': (1, 8)}}, {{'batch': 8}} or {{'batch': {POWERS!r}}}")
        #: Axes of the dimensions with buckets, by input of the graph.
        self._axes: dict[str, dict[int, str]] = {}
        inputs = (*model.graph_inputs, *model.defaulted)
        self._inputs = {each.name: each for each in inputs if not each.is_sequence}
        known, fixed = set(), dict[str, str]()
        for each in inputs:
            for axis, dimension in enumerate(each.dimensions or ()):
                if isinstance(dimension, int):
                    continue
                name = dimension or f"{each.name}[{axis}]"
                if each.is_sequence or each.name in carried:
                    fixed[name] = f"{'the sequence' if each.is_sequence else 'the carried value'} {each.name!r}"
                    continue
                known.add(name)
                if name in given:
                    self._axes.setdefault(each.name, {})[axis] = name
        known -= fixed.keys()
        for name in given:
            if name in fixed:
                raise ArgumentError(
                    f"{name!r} is an extent of {fixed[name]}, which has no buckets",
                    where=_WHERE,
                    hint=f"Leave it out; buckets may be of {', '.join(sorted(known)) or 'none'}",
                )
            if name not in known:
                raise ArgumentError(
                    f"the model has no open dimension {name!r}",
                    where=_WHERE,
                    hint=did_you_mean(name, sorted(known)) + f"Open are {', '.join(sorted(known)) or 'none'}",
                )
        self._buckets = {name: _read(name, each) for name, each in given.items()}
        self._growing = () if pairs is None else growing_dimensions(model, pairs, given)
        #: Inputs, axes and dimensions of which growing ones are sums.
        summed = {each for growth in self._growing for each in growth.summed}
        self._summed = [
            (each.name, axis, dimension)
            for each in self._inputs.values()
            for axis, dimension in enumerate(each.dimensions or ())
            if dimension in summed
        ]
        #: Further inputs that say how many elements growing dimensions have after a call.
        self._sums: dict[str, tuple[Growth, CountedSum]] = {}
        #: Shapes with dimensions that cannot grow.
        self._refused: set[_Key] = set()

    @property
    def are_given(self) -> bool:
        """Whether dimensions have buckets, rather than only grow."""
        return bool(self._buckets)

    @property
    def are_any(self) -> bool:
        """Whether any dimension has buckets or grows."""
        return bool(self._buckets or self._growing)

    @property
    def conditions(self) -> tuple[str, ...]:
        """Inputs that are conditions for dimensions to grow: the model is planned for each of their values."""
        return tuple(dict.fromkeys(name for growth in self._growing for name, _ in sorted(growth.conditions)))

    def _filling(self, shapes: Shapes, values: Mapping[str, Any]) -> _Filling:
        """Return the axes whose extents in the plan for these shapes may be larger."""
        found = _Filling()
        for name, axes in self._axes.items():
            for axis, dimension in axes.items():
                extent = shapes[name][axis] if name in shapes and axis < len(shapes[name]) else 0
                whole = self._buckets[dimension].around(extent)
                if extent and whole is not None and whole > 1:
                    found.extents[name, axis] = whole
                    found.numbers[EXTENT_INPUT.format(dimension)] = extent
        if not self._growing:
            return found
        grown = _Filling({**found.extents}, {**found.numbers})
        self._grow(shapes, values, grown)
        return found if self._refused and _key(grown.planned(shapes)) in self._refused else grown

    def _grow(self, shapes: Shapes, values: Mapping[str, Any], found: _Filling) -> None:
        """Add the dimensions that grow, up to an extent with room for the appended rows of this call and others."""
        known = {
            dimension: shapes[name][axis]
            for name, axis, dimension in self._summed
            if name in shapes and axis < len(shapes[name])
        }
        for growth in self._growing:
            extents = growth.extents(shapes, known)
            counted = [each for each in growth.appended if EXTENT_INPUT.format(each) in found.numbers]
            if extents is None or not (extents[0] or counted) or not growth.applies(values):
                continue
            before, after = extents
            fixed = after - before - sum(known[each] for each in counted)
            room = max(_LEAST_ROOM, ceil_power_of_two(after))
            terms = (growth.name, *counted)
            counts = tuple(map(EXTENT_INPUT.format, terms))
            total = EXTENT_INPUT.format(" + ".join((*terms, f"{fixed} up to {room}")))
            self._sums[total] = growth, CountedSum(fixed, counts, room)
            found.numbers |= {counts[0]: before, total: after}
            found.extents |= dict.fromkeys(growth.axes + growth.total_axes, room)

    def planned(self, shapes: Shapes) -> dict[str, tuple[int, ...]]:
        """Return the shapes for which inputs of these shapes are planned, with those of further inputs."""
        return self._filling(shapes, {}).planned(shapes)

    def carried(self, shapes: Shapes, carried: Shapes) -> Shapes:
        """Return the shapes that a plan for shapes, those of further inputs included, has for carried values."""
        extents = {
            (name, axis): found.bound
            for total, (growth, found) in self._sums.items()
            if total in shapes
            for name, axis in growth.axes
        }
        return _Filling(extents).planned(carried) if extents else carried

    def padded(self, values: CallValues, carried: Shapes) -> CallValues:
        """Return the values of a call with zeros up to the extents of the plan, and the extents.

        Carried values, of which there are the shapes, are left out. Raises `ArgumentError` if the shapes do not fit the
        model.
        """
        shapes = {name: tuple(value.shape) for name, value in values.items()}
        given: dict[str, int] = {}
        for each in self._inputs.values():
            if each.name in shapes:
                fitting_shape(each, shapes[each.name], given)
        filling = self._filling({**shapes, **carried}, values)
        found: dict[str, Any] = {}
        for name, value in values.items():
            found[name] = _filled(value, filling.shape(name, shapes[name]))
        found |= {name: np.array(number, np.int64) for name, number in filling.numbers.items()}
        return values.replaced(found)

    def extent_dtypes(self, shapes: Shapes) -> dict[str, np.dtype[Any]]:
        """Return the dtypes of the further inputs that planned shapes have."""
        return {name: np.dtype(np.int64) for name in shapes if name.startswith(EXTENT_INPUT.format(""))}

    def check_inputs(self, error: ValueNeededError) -> None:
        """Raise if the inputs whose values decide shapes are as long as a bucket, or have its extent."""
        extents = {EXTENT_INPUT.format(name): name for name in self._buckets}
        own = (self._axes.get(name, {}).values() for name in error.inputs)
        names = {extents[name] for name in error.inputs if name in extents}.union(*own)
        if names or any(name not in self._inputs for name in error.inputs):
            raise ArgumentError(
                f"it cannot run in a bucket: {error.what}",
                where=error.where,
                hint=f"Compile the model without buckets of {', '.join(sorted(names or self._buckets))}",
            ) from error

    def axes(self, shapes: Shapes) -> CountedAxes:
        """Return the axes of inputs with a length for planned shapes."""
        found: dict[str, dict[int, str]] = {}
        for name, axes in self._axes.items():
            for axis, dimension in axes.items():
                extent = EXTENT_INPUT.format(dimension)
                if name in shapes and extent in shapes:
                    found.setdefault(name, {})[axis] = extent
        sums = {}
        for total, (growth, found_sum) in self._sums.items():
            if total in shapes:
                sums[total] = found_sum
                for count, each in ((found_sum.counts[0], growth.axes), (total, growth.total_axes)):
                    for name, axis in each:
                        found.setdefault(name, {})[axis] = count
        return CountedAxes(found, sums)

    def grows(self, values: Mapping[str, Any]) -> bool:
        """Return whether values have dimensions that grow."""
        return any(name in self._sums for name in values)

    def refuse_growth(self, shapes: Shapes, error: SyclschedError) -> None:
        """Plan for a call's own extents in place of these shapes, as an error shows that they cannot grow."""
        if not self._refused:
            names = ", ".join(repr(each.name) for each in self._growing)
            warnings.warn(
                f"the model is planned and bound anew for every extent of {names}, as it cannot grow: {error}",
                RemadeModelWarning,
                stacklevel=2,
            )
        self._refused.add(_key(shapes))


def _read(name: str, given: Iterable[int] | int | str) -> _Bucket:
    if isinstance(given, str) or not isinstance(given, int | np.integer | Iterable):
        if given == POWERS:
            return _Bucket()
        raise _wrong(name, given)
    extents: tuple[Any, ...] = tuple(given) if isinstance(given, Iterable) else (given,)
    if not extents or not all(isinstance(n, int | np.integer) and not isinstance(n, bool) and n > 0 for n in extents):
        raise _wrong(name, given)
    found = tuple(sorted({int(n) for n in extents}))
    return _Bucket(found) if isinstance(given, Iterable) else _Bucket(multiple=found[0])


def _wrong(name: str, given: object) -> ArgumentError:
    return ArgumentError(
        f"{given!r} is no bucket of {name!r}",
        where=_WHERE,
        hint=f"Give extents, as (1, 8, 32), a number for its multiples, or {POWERS!r}",
    )


def _key(shapes: Shapes) -> _Key:
    return frozenset(shapes.items())


def _filled(value: Any, shape: tuple[int, ...]) -> Any:
    """Return a value with zeros up to the extents of a shape."""
    if value.shape == shape:
        return value
    whole: Any = getattr(value, "base", None)
    form = shape, value.strides, value.dtype
    is_part = type(whole) is np.ndarray and (whole.shape, whole.strides, whole.dtype) == form
    if is_part and value.dtype.kind == "f" and value.ctypes.data == whole.ctypes.data:
        return whole  # as a call returned it: elements beyond have no meaning
    made = np.zeros(shape, value.dtype)
    made[tuple(map(slice, value.shape))] = np.asarray(value)
    return made
