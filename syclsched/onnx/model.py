# SPDX-License-Identifier: Apache-2.0
"""A model that was read: what goes in, what comes out, and its graph for the shapes it is given."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.model.constant import Constant
from syclsched.model.graph import TaskGraph
from syclsched.onnx.letting_go import LetGo
from syclsched.onnx.road import read, specialise, values_again
from syclsched.onnx.specialised import Array, Shapes, Specialised

if TYPE_CHECKING:
    from syclsched.frontends.onnx.model import Declared, Model

#: What says how large inputs are: shapes by input, or extents by the name of a dimension the model leaves open.
GivenShapes = Mapping[str, "Iterable[int] | int"]


def load(
    source: str | os.PathLike[str] | bytes | Any,
    *,
    shapes: GivenShapes | None = None,
    rewrites: bool | Iterable[str] = True,
) -> OnnxModel:
    """Read an ONNX model, and check it.

    Parameters
    ----------
    source : path, bytes or onnx.ModelProto
        A file, the content of one, or a model in memory.
    shapes : Mapping[str, tuple of int or int], optional
        Where the model leaves extents of its inputs open: the shape of an input by its name, or an extent by the
        dimension's name (``{"batch": 1}``).
    rewrites : bool or iterable of str, optional
        Which rewrites there are to be before the model becomes tasks: all, none, or these.

    Returns
    -------
    OnnxModel
        Its `OnnxModel.graph` is an ordinary `TaskGraph`.

    Raises
    ------
    StorageError, ModelError
        If the file cannot be read, or is no model that can be taken; nothing has run by then.

    Examples
    --------
    >>> import syclsched
    >>> model = syclsched.onnx.load("model.onnx", shapes={"batch": 1})  # doctest: +SKIP
    >>> plan = syclsched.plan(model.graph, syclsched.describe(["cpu", "max1550"]))  # doctest: +SKIP
    """
    return OnnxModel(read(source), shapes=shapes, rewrites=rewrites)


class OnnxModel:
    """A model that was read. Made by `load`.

    Parameters
    ----------
    model : Model
        As it was read.
    shapes, rewrites
        As for `load`.
    """

    def __init__(
        self, model: Model, *, shapes: GivenShapes | None = None, rewrites: bool | Iterable[str] = True
    ) -> None:
        self._model = model
        self._constant_bytes = model.constant_bytes
        self._rewrites = rewrites if isinstance(rewrites, bool) else tuple(rewrites)
        self._given = _checked(shapes or {}, model.inputs)
        #: For the shapes given when it was loaded.
        self._made: Specialised | None = None
        self._lock = threading.Lock()
        self._constants: WeakValueDictionary[str, Constant] = WeakValueDictionary()

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    @property
    def inputs(self) -> tuple[Declared, ...]:
        """Its inputs, as the model declares them: name, dtype, dimensions (known, named, or None for open ones)."""
        return self._model.inputs

    @property
    def outputs(self) -> tuple[Declared, ...]:
        """Its outputs, in the same way."""
        return self._model.outputs

    @property
    def constant_bytes(self) -> int:
        """Bytes of its weights."""
        return self._constant_bytes

    @property
    def graph(self) -> TaskGraph:
        """Its task graph, for the shapes that were given when it was loaded.

        Raises
        ------
        OpenDimensionError
            If extents are open; names them.
        """
        return self.specialised().graph

    def specialised(self, shapes: Shapes | None = None, values: Mapping[str, Array] | None = None) -> Specialised:
        """Return the model for shapes of its inputs.

        Parameters
        ----------
        shapes : Mapping[str, tuple of int], optional
            Of all inputs, or of those that differ from what was given before.
        values : Mapping[str, numpy.ndarray], optional
            Values of inputs that shapes within the model follow from.

        Returns
        -------
        Specialised
            Its graph, and which arrays are inputs and outputs.

        Raises
        ------
        OpenDimensionError, ValueNeededError, ModelError
            If extents, or values they follow from, are open; or an operator cannot be done for these shapes.
        """
        said = {name: tuple(shape) for name, shape in (shapes or {}).items()}
        # What was said of dimensions when it was loaded is for inputs of which nothing is said now.
        asked = said if all(each.name in said for each in self.inputs) else {**self._given, **said}
        full = self.full_shapes(asked)
        with self._lock:
            if self._made is not None and not values and full == self._made.shapes:
                return self._made
            made = specialise(self._model, full, values or {}, self._rewrites, self._constants)
            if not values and self._has_one_form and not self._model.is_in_its_file:
                # Nobody will ask for another form: what was in memory need not be kept beside it.
                self._model = self._model.without_content()
            elif not values:
                made = replace(made, letting_go=LetGo(partial(values_again, self._model, full, self._rewrites)))
            if not values and (not shapes or self._has_one_form):
                self._made = made
            return made

    @property
    def _has_one_form(self) -> bool:
        """Whether the model says all extents of its inputs."""
        return all(
            each.dimensions is not None and all(isinstance(extent, int) for extent in each.dimensions)
            for each in self.inputs
        )

    def full_shapes(self, given: Mapping[str, tuple[int, ...] | int] | None = None) -> dict[str, tuple[int, ...]]:
        """Return the shape of every input: as declared, with what is given in the place of what is open.

        Raises
        ------
        OpenDimensionError
            If extents are left open.
        ArgumentError
            If a shape contradicts the model.
        """
        from syclsched.errors import OpenDimensionError

        known = self._given if given is None else given
        extents = {name: extent for name, extent in known.items() if isinstance(extent, int)}
        found: dict[str, tuple[int, ...]] = {}
        missing: dict[str, None] = {}
        for each in self.inputs:
            shape = known.get(each.name)
            if isinstance(shape, tuple):
                found[each.name] = _fitting(each, shape, extents)
                continue
            if each.dimensions is None:
                missing[each.name] = None
                continue
            whole = [
                dimension if isinstance(dimension, int) else extents.get(dimension or "")
                for dimension in each.dimensions
            ]
            for axis, (dimension, extent) in enumerate(zip(each.dimensions, whole, strict=True)):
                if extent is None:
                    missing[dimension if isinstance(dimension, str) else f"{each.name}[{axis}]"] = None
            found[each.name] = tuple(extent or 0 for extent in whole)
        if missing:
            raise OpenDimensionError(
                f"the model leaves extents of its inputs open: {', '.join(missing)}",
                names=tuple(missing),
                where=f"model {self.name!r}",
                hint=_how_to_say(self.inputs, tuple(missing)),
            )
        return found

    def dtype(self, name: str) -> np.dtype[Any]:
        """Return the dtype of an input."""
        return next(np.dtype(each.dtype) for each in self.inputs if each.name == name)

    def __repr__(self) -> str:
        inputs = ", ".join(_signature(each) for each in self.inputs)
        return f"<OnnxModel {self.name!r}: {inputs} -> {', '.join(_signature(each) for each in self.outputs)}>"


def _how_to_say(inputs: tuple[Declared, ...], missing: tuple[str, ...]) -> str:
    """Return how open extents are given, by the names this model has for them."""
    named = [d for each in inputs for d in each.dimensions or () if isinstance(d, str) and d in missing]
    if named:
        name = named[0]
        return f"Give shapes={{{name!r}: 1}}, or on the command line --shape {name}=1"
    name, rank = next(
        (each.name, len(each.dimensions or ()))
        for each in inputs
        if each.name in missing or any(one.startswith(f"{each.name}[") for one in missing)
    )
    extents = (1,) * rank or (1, 3, 224, 224)
    return f"Give a whole shape, shapes={{{name!r}: {extents}}}, or --shape {name}={'x'.join(map(str, extents))}"


def _signature(each: Declared) -> str:
    extents = "?" if each.dimensions is None else " x ".join("?" if d is None else str(d) for d in each.dimensions)
    return f"{each.name}: {each.dtype or '?'} [{extents}]"


def _checked(given: GivenShapes, inputs: tuple[Declared, ...]) -> dict[str, tuple[int, ...] | int]:
    names = {each.name for each in inputs}
    dimensions = {d for each in inputs for d in each.dimensions or () if isinstance(d, str)}
    found: dict[str, tuple[int, ...] | int] = {}
    for name, value in given.items():
        if isinstance(value, int) and name not in names:
            if name not in dimensions:
                raise ArgumentError(
                    f"the model has no input and no open dimension {name!r}",
                    where="shapes",
                    hint=f"Inputs: {', '.join(sorted(names))}; open dimensions: {', '.join(sorted(dimensions)) or '-'}",
                )
            whole: tuple[int, ...] | int = value
        elif name not in names or isinstance(value, int):
            raise ArgumentError(
                f"{value!r} is not a shape of an input" if name in names else f"the model has no input {name!r}",
                where="shapes",
                hint=f"Inputs: {', '.join(sorted(names))}",
            )
        else:
            whole = tuple(value)
        extents = (whole,) if isinstance(whole, int) else whole
        if not all(isinstance(n, int | np.integer) and n >= 0 for n in extents):
            raise ArgumentError(f"extents must be whole numbers, not {value!r}", where=f"shapes, {name}")
        found[name] = whole if isinstance(whole, int) else tuple(int(n) for n in whole)
    return found


def _fitting(each: Declared, shape: tuple[int, ...], extents: dict[str, int]) -> tuple[int, ...]:
    """Return a shape that an input can have; the extents of named dimensions are noted."""
    if each.dimensions is None:
        return shape
    wrong = len(shape) != len(each.dimensions)
    for dimension, extent in zip(each.dimensions, shape, strict=False):
        known = (
            dimension if isinstance(dimension, int) else extents.setdefault(dimension, extent) if dimension else None
        )
        wrong = wrong or (known is not None and known != extent)
    if wrong:
        wanted = ", ".join(
            "?" if d is None else f"{d}={extents[d]}" if isinstance(d, str) and d in extents else str(d)
            for d in each.dimensions
        )
        raise ArgumentError(
            f"it has the shape ({', '.join(map(str, shape))}), and the model wants ({wanted})",
            where=f"input {each.name!r}",
        )
    return shape
