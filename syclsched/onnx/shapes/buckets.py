# SPDX-License-Identifier: Apache-2.0
"""Buckets of extents: calls with shorter inputs run in the plan of a larger extent, with lengths known at run time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from syclsched.errors import ArgumentError, ValueNeededError, did_you_mean
from syclsched.frontends.onnx.importing.lengths import EXTENT_INPUT
from syclsched.onnx.call_inputs import CallValues
from syclsched.onnx.model import OnnxModel, fitting_shape
from syclsched.onnx.specialised import CountedAxes, Shapes

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
        return 1 << max(extent - 1, 0).bit_length()


class Buckets:
    """The buckets of a model's open dimensions.

    Parameters
    ----------
    given : Mapping
        As for `syclsched.compile`.
    model : OnnxModel
        The model.
    carried : iterable of str, optional
        Inputs that are carried from call to call: they keep their extents.
    """

    def __init__(self, given: GivenBuckets, model: OnnxModel, carried: Iterable[str] = ()) -> None:
        #: Axes of the dimensions with buckets, by input of the graph.
        self._axes: dict[str, dict[int, str]] = {}
        self._inputs = {each.name: each for each in model.graph_inputs if not each.is_sequence}
        known, fixed = set(), dict[str, str]()
        for each in model.graph_inputs:
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

    def _extents(self, shapes: Shapes) -> dict[str, tuple[int, int]]:
        """Return for each dimension with a bucket its extent and that of the plan, if they may differ."""
        found = {}
        for name, axes in self._axes.items():
            for axis, dimension in axes.items():
                extent = shapes[name][axis] if name in shapes and axis < len(shapes[name]) else 0
                whole = self._buckets[dimension].around(extent)
                if extent and whole is not None and whole > 1:
                    found[dimension] = extent, whole
        return found

    def planned(self, shapes: Shapes) -> dict[str, tuple[int, ...]]:
        """Return the shapes for which inputs of these shapes are planned, with those of the extents' inputs."""
        extents = self._extents(shapes)
        found = {name: self._shape(name, shape, extents) for name, shape in shapes.items()}
        return found | {EXTENT_INPUT.format(dimension): () for dimension in extents}

    def _shape(self, name: str, shape: tuple[int, ...], extents: Mapping[str, tuple[int, int]]) -> tuple[int, ...]:
        axes = self._axes.get(name, {})
        return tuple(extents[axes[i]][1] if axes.get(i) in extents else n for i, n in enumerate(shape))

    def padded(self, values: CallValues) -> CallValues:
        """Return the values of a call with zeros up to the extents of the plan, and the extents.

        Raises
        ------
        ArgumentError
            If the shapes do not fit the model.
        """
        shapes = {name: tuple(value.shape) for name, value in values.items()}
        given: dict[str, int] = {}
        for each in self._inputs.values():
            if each.name in shapes:
                fitting_shape(each, shapes[each.name], given)
        extents = self._extents(shapes)
        found: dict[str, Any] = {}
        for name, value in values.items():
            whole = self._shape(name, shapes[name], extents)
            if whole != shapes[name]:
                padded = np.zeros(whole, value.dtype)
                padded[tuple(map(slice, shapes[name]))] = np.asarray(value)
                value = padded
            found[name] = value
        found |= {EXTENT_INPUT.format(name): np.array(extent, np.int64) for name, (extent, _) in extents.items()}
        return values.replaced(found)

    def extent_dtypes(self, shapes: Shapes) -> dict[str, np.dtype[Any]]:
        """Return the dtypes of the inputs with extents that planned shapes have."""
        names = map(EXTENT_INPUT.format, self._buckets)
        return {name: np.dtype(np.int64) for name in names if name in shapes}

    def check_inputs(self, error: ValueNeededError) -> None:
        """Raise if the inputs whose values decide shapes are as long as a bucket, or have its extent."""
        names = [name for name in error.inputs if name in self._axes or name not in self._inputs]
        if names:
            raise ArgumentError(
                f"it cannot run in a bucket: {error.what}", where=error.where, hint="Compile the model without buckets"
            ) from error

    def axes(self, shapes: Shapes) -> CountedAxes:
        """Return the axes of inputs with a length for planned shapes."""
        found: dict[str, dict[int, str]] = {}
        for name, axes in self._axes.items():
            for axis, dimension in axes.items():
                extent = EXTENT_INPUT.format(dimension)
                if name in shapes and extent in shapes:
                    found.setdefault(name, {})[axis] = extent
        return found


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
