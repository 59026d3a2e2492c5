# SPDX-License-Identifier: Apache-2.0
"""ONNX models as read from a file: inputs, outputs, and the task graph for given input shapes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np

from syclsched.errors import ArgumentError, ModelError, OpenDimensionError, check_mapping, did_you_mean, several
from syclsched.frontends.onnx.model_file.appended_inputs import appended_inputs
from syclsched.frontends.onnx.model_file.onnx_model import extent_by_name, extents_text, summands
from syclsched.model.graph import TaskGraph
from syclsched.onnx.specialised import Array, Shapes, Specialised, imported, recompute_values, specialise
from syclsched.onnx.weight_eviction import EvictableConstants

if TYPE_CHECKING:
    from syclsched.frontends.onnx.importing.lengths import CountedAxes
    from syclsched.frontends.onnx.model_file.appended_inputs import Appended
    from syclsched.frontends.onnx.model_file.onnx_model import DeclaredValue, HostParts, Model
    from syclsched.frontends.onnx.network import Network
    from syclsched.frontends.onnx.observed_extents import ObservedExtents

#: Shapes by input name, or extents by the name of an open dimension.
GivenShapes = Mapping[str, "Iterable[int] | int"]


def load(
    source: str | os.PathLike[str] | bytes | Any,
    *,
    shapes: GivenShapes | None = None,
    rewrites: bool | Iterable[str] = True,
) -> OnnxModel:
    """Read and check an ONNX model.

    Parameters
    ----------
    source : path, bytes or onnx.ModelProto
        A file, the content of one, or a model in memory.
    shapes : Mapping[str, tuple of int or int], optional
        For open dimensions of inputs: the shape of an input by its name, or an extent by the dimension's name
        (``{"batch": 1}``). A shape is also used where the model declares another extent, with a
        `DeclaredShapeWarning`.
    rewrites : bool or iterable of str, optional
        Graph rewrites before lowering to tasks: all, none, or these by name.

    Returns
    -------
    OnnxModel
        Its `OnnxModel.graph` is an ordinary `TaskGraph`.

    Raises
    ------
    StorageError, ModelError
        If the file cannot be read, or is not a supported model. Nothing has run then.

    Examples
    --------
    >>> import syclsched
    >>> model = syclsched.onnx.load("model.onnx", shapes={"batch": 1})  # doctest: +SKIP
    >>> plan = syclsched.plan(model.graph, syclsched.describe(["cpu", "max1550"]))  # doctest: +SKIP
    """
    from syclsched.frontends.onnx.model_file.model_reader import read_model

    return OnnxModel(read_model(source), shapes=shapes, rewrites=rewrites)


class OnnxModel:
    """An ONNX model as read. Made by `load`.

    Parameters
    ----------
    model : Model
        The parsed model.
    shapes, rewrites
        As for `load`.
    """

    #: Share of the time that kernels must be predicted to save so that they are tried; see `faster_variant`.
    least_gain: float = 0.0

    def __init__(
        self, model: Model, *, shapes: GivenShapes | None = None, rewrites: bool | Iterable[str] = True
    ) -> None:
        self._constant_bytes = model.constant_bytes
        self._rewrites = rewrites if isinstance(rewrites, bool) else _checked_passes(several("rewrites", rewrites))
        self._given = _checked(shapes or {}, model.inputs if model.host is None else model.host.inputs)
        self._model = model.with_shapes({name: each for name, each in self._given.items() if isinstance(each, tuple)})
        #: Cached result for the shapes given when it was loaded.
        self._made: Specialised | None = None
        self._made_carrying: Mapping[str, str] = {}
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    @property
    def inputs(self) -> tuple[DeclaredValue, ...]:
        """The inputs as the model declares them: name, dtype, dimensions (known, named, or None for open ones)."""
        return self._model.inputs if self.host is None else self.host.inputs

    @property
    def outputs(self) -> tuple[DeclaredValue, ...]:
        """The outputs as the model declares them."""
        return self._model.outputs if self.host is None else self.host.outputs

    @property
    def host(self) -> HostParts | None:
        """The parts on text and on maps, which the host executes before and after the graph."""
        return self._model.host

    @property
    def graph_inputs(self) -> tuple[DeclaredValue, ...]:
        """The inputs of the graph, sequences as one: those of the model, or made of texts by the host."""
        return self._model.inputs

    @property
    def defaulted(self) -> tuple[DeclaredValue, ...]:
        """The inputs that have default values: calls may leave them out."""
        return self._model.defaulted

    def requiring(self, names: Collection[str]) -> tuple[OnnxModel, dict[str, Array]]:
        """Return the model without the default values of some inputs, and these values."""
        values = {each.name: self._model.graph.initialisers[each.name] for each in self.defaulted if each.name in names}
        if not values:
            return self, {}
        return OnnxModel(self._model.with_given(values), shapes=self._given, rewrites=self._rewrites), values

    def has_value(self, name: str) -> bool:
        """Return whether the model itself holds a value of this name, such as a weight."""
        return name in self._model.graph.initialisers

    @property
    def appended(self) -> dict[str, Appended]:
        """The outputs in which Concat appends to an input, of the model's nodes or of branches of If."""
        ranks = {each.name: len(each.dimensions or ()) for each in self._model.inputs if not each.is_sequence}
        return appended_inputs(self._model.graph, ranks)

    @property
    def is_composed(self) -> bool:
        """Whether inputs of the graph are sequences or optional values: graphs then have their tensors as inputs."""
        return any(each.is_sequence or each.is_optional for each in self._model.inputs)

    def tensors(self, given: Collection[str]) -> tuple[DeclaredValue, ...]:
        """Return the inputs of the graph if these are given; see `separate_inputs`."""
        inputs = self._model.inputs
        if self._model.defaulted:
            inputs = (*inputs, *(each for each in self._model.defaulted if each.name in given))
        if not self.is_composed:
            return inputs
        from syclsched.frontends.onnx.model_file.onnx_model import separate_inputs

        return separate_inputs(inputs, given)[0]

    @property
    def constant_bytes(self) -> int:
        """Size of the weights in bytes."""
        return self._constant_bytes

    @property
    def graph(self) -> TaskGraph:
        """The task graph for the shapes given when the model was loaded.

        Raises
        ------
        OpenDimensionError
            If dimensions are open; the error names them.
        """
        return self.specialised().graph

    def specialised(
        self,
        shapes: Shapes | None = None,
        values: Mapping[str, Array] | None = None,
        carried: Mapping[str, str] | None = None,
        observed: ObservedExtents | None = None,
        counted: CountedAxes | None = None,
    ) -> Specialised:
        """Return the model specialised for input shapes.

        Parameters
        ----------
        shapes : Mapping[str, tuple of int], optional
            Shapes of all inputs, or of those that differ from the shapes given before.
        values : Mapping[str, numpy.ndarray], optional
            Values of inputs that determine shapes within the model.
        carried : Mapping[str, str], optional
            For outputs that stay in memory for the next call: which of its inputs they are.
        observed : ObservedExtents, optional
            Upper bounds for extents that values decide.
        counted : CountedAxes, optional
            Axes of inputs of which a call fills a part.

        Returns
        -------
        Specialised
            The graph, and its input and output arrays.

        Raises
        ------
        OpenDimensionError, ValueNeededError, ModelError
            If dimensions, or input values that determine shapes, are missing; or an operator does not support the
            shapes.
        """
        new = {name: tuple(shape) for name, shape in (shapes or {}).items()}
        # Dimensions given at loading apply only to inputs without a shape in this call.
        asked = new if all(each.name in new for each in self.tensors(new)) else {**self._given, **new}
        full, carrying = self.full_shapes(asked), carried or {}
        network = partial(self._network, observed=observed, counted=counted)
        full |= dict.fromkeys(() if counted is None else counted.extents, ())
        with self._lock:
            if self._made is not None and not values and (full, carrying) == (self._made.shapes, self._made_carrying):
                return self._made
            growing = {} if counted is None else counted.growing
            made = specialise(self._model, full, values or {}, self._rewrites, carrying, network, growing)
            if made.guards:  # of no use for other calls
                return made
            if not values and self._has_fixed_shapes and not self._model.is_file_backed:
                # No other shapes can be asked for, so the parsed content need not stay in memory.
                self._model = self._model.without_weights()
            elif not values:
                recompute = partial(recompute_values, self._model, full, self._rewrites, carrying, network)
                made = replace(made, evictable=EvictableConstants(recompute))
            if not values and (not shapes or self._has_fixed_shapes):
                self._made, self._made_carrying = made, carrying
            return made

    def observe(
        self, shapes: Shapes, values: Mapping[str, Array], carried: Mapping[str, str], observed: ObservedExtents
    ) -> None:
        """Compute the extents that follow from values of inputs."""
        with self._lock:
            imported(self._model, self.full_shapes(shapes), values, carried, observed, observing=True)

    def _network(
        self,
        model: Model,
        shapes: Shapes,
        values: Mapping[str, Array],
        carried: Mapping[str, str],
        observed: ObservedExtents | None = None,
        counted: CountedAxes | None = None,
    ) -> Network:
        """Return the network for input shapes; see `specialised`."""
        return imported(model, shapes, values, carried, observed=observed, counted=counted)

    def is_whole(self, value_of: Callable[[str], Array | None]) -> bool:
        """Return whether carried values, read by name, are those of the last whole call, after one that failed."""
        return False

    @property
    def _has_fixed_shapes(self) -> bool:
        """Whether the model declares fixed shapes for all inputs, and none may be left out."""
        return not self._model.defaulted and all(
            each.dimensions is not None
            and all(isinstance(extent, int) for extent in each.dimensions)
            and not (each.is_sequence or each.is_optional)
            for each in self._model.inputs
        )

    def full_shapes(self, given: Mapping[str, tuple[int, ...] | int] | None = None) -> dict[str, tuple[int, ...]]:
        """Return the shape of every input of the graph: as declared, with open dimensions filled in.

        Raises
        ------
        OpenDimensionError
            If dimensions stay open.
        ArgumentError
            If a shape contradicts the model.
        """
        known = self._given if given is None else given
        extents = {name: extent for name, extent in known.items() if isinstance(extent, int)}
        shaped = {name: shape for name, shape in known.items() if isinstance(shape, tuple)}
        missing: dict[str, None] = {}
        inputs = self.tensors(shaped)
        if self.host is not None:
            shaped |= self._shapes_from_text(known, {each.name for each in inputs})
        # Inputs of known shapes first: others may share their dimensions, or have them from loading.
        found = {each.name: fitting_shape(each, shaped[each.name], extents) for each in inputs if each.name in shaped}
        for name, given_then in self._given.items():
            if isinstance(given_then, tuple):
                found.setdefault(name, given_then)
            else:
                extents.setdefault(name, given_then)
        for each in inputs:
            if each.name in found:
                continue
            if each.dimensions is None:
                missing[each.name] = None
                continue
            whole = [extent_by_name(d, extents) if isinstance(d, str) else d for d in each.dimensions]
            for axis, (dimension, extent) in enumerate(zip(each.dimensions, whole, strict=True)):
                if extent is None:
                    missing[dimension if isinstance(dimension, str) else f"{each.name}[{axis}]"] = None
            found[each.name] = tuple(extent or 0 for extent in whole)
        found = {each.name: found[each.name] for each in inputs if each.name in found}
        if missing:
            answered = {*missing, *extents}
            names = tuple(name for name in missing if not _is_sum(name, answered))
            raise OpenDimensionError(
                f"the model leaves extents of its inputs open: {', '.join(names)}",
                names=names,
                where=f"model {self.name!r}",
                hint=_shapes_hint(inputs, names),
            )
        return found

    def _shapes_from_text(
        self, given: Mapping[str, tuple[int, ...] | int], inputs: Collection[str]
    ) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the host's values before the graph, if they follow from those of the inputs."""
        part = None if self.host is None else self.host.before
        if self.host is None or part is None or all(name in given for name in part.outputs if name in inputs):
            return {}
        from syclsched.frontends.onnx.text_evaluation import result_shapes

        known = {**self._given, **given}
        shapes: dict[str, tuple[int, ...]] = {}
        for each in self.host.inputs:
            said, dimensions = known.get(each.name), each.dimensions or ()
            extents = (
                said if isinstance(said, tuple) else [known.get(d) if isinstance(d, str) else d for d in dimensions]
            )
            is_known = isinstance(said, tuple) or each.dimensions is not None
            if is_known and not (each.is_sequence or each.is_optional or each.dtype in (None, "map")):
                whole = tuple(n for n in extents if isinstance(n, int))
                if len(whole) == len(extents):
                    shapes[each.name] = whole
        if not all(name in shapes for name in part.inputs):
            return {}
        dtypes = {each.name: each.dtype or "float32" for each in self.host.inputs}
        try:
            found = result_shapes(part, shapes, dtypes)
        except ModelError:  # empty texts are invalid inputs of it
            return {}
        return {name: shape for name, shape in found.items() if name in inputs and name not in given}

    def dtype(self, name: str) -> np.dtype[Any]:
        """Return the dtype of an input."""
        from syclsched.frontends.onnx.model_file.dtypes import numpy_dtype

        names = name, element_of(name)
        found = next(each for each in (*self._model.inputs, *self._model.defaulted) if each.name in names)
        return numpy_dtype(found.dtype or "float32")

    def __repr__(self) -> str:
        inputs = ", ".join(value_text(each) for each in self.inputs)
        return f"<OnnxModel {self.name!r}: {inputs} -> {', '.join(value_text(each) for each in self.outputs)}>"


def _shapes_hint(inputs: tuple[DeclaredValue, ...], missing: tuple[str, ...]) -> str:
    """Return a hint on how to give open dimensions of this model."""
    dimensions = {d for each in inputs for d in each.dimensions or () if isinstance(d, str)}
    named = [name for name in missing if name in dimensions]
    if named:
        options = " ".join(f"--shape {quote(f'{name}=1')}" for name in named)
        return f"Give shapes={dict.fromkeys(named, 1)}, or on the command line {options}"
    name, rank = next(
        (each.name, len(each.dimensions or ()))
        for each in inputs
        if each.name in missing or any(one.startswith(f"{each.name}[") for one in missing)
    )
    extents = (1,) * rank or (1, 3, 224, 224)
    return f"Give a whole shape, shapes={{{name!r}: {extents}}}, or --shape {name}={'x'.join(map(str, extents))}"


def _is_sum(dimension: str, known: Collection[str]) -> bool:
    """Return whether an extent follows from others by its name."""
    terms = summands(dimension)
    return len(terms) > 1 and all(each.isdecimal() or each in known for each in terms)


def value_text(each: DeclaredValue) -> str:
    """Return a declared input or output with dtype and extents."""
    extents = "?" if each.dimensions is None else " x ".join("?" if d is None else str(d) for d in each.dimensions)
    kind = f"{'optional ' if each.is_optional else ''}{'sequence of ' if each.is_sequence else ''}{each.dtype or '?'}"
    return f"{each.name}: {kind}" if each.dtype == "map" else f"{each.name}: {kind} [{extents}]"


def _checked_passes(names: tuple[str, ...]) -> tuple[str, ...]:
    from syclsched.frontends.onnx.rewrites.pass_pipeline import check_passes

    check_passes(names)
    return names


def _checked(given: GivenShapes, inputs: tuple[DeclaredValue, ...]) -> dict[str, tuple[int, ...] | int]:
    check_mapping("shapes", given, "Give {'x': (1, 3)} for an input x, or {'batch': 1} for a dimension")
    names = {each.name for each in inputs if not each.is_sequence}
    names |= {name for name in given if element_of(name) in [each.name for each in inputs if each.is_sequence]}
    dimensions = {d for each in inputs for d in each.dimensions or () if isinstance(d, str)}
    found: dict[str, tuple[int, ...] | int] = {}
    value: Any
    for name, value in given.items():
        if name not in names and name not in dimensions:
            raise ArgumentError(
                f"the model has no input and no open dimension {name!r}",
                where="shapes",
                hint=did_you_mean(name, [*names, *dimensions])
                + f"Inputs: {', '.join(sorted(names))}; open dimensions: {', '.join(sorted(dimensions)) or '-'}",
            )
        is_shape = name in names and isinstance(value, Iterable) and not isinstance(value, str)
        if not is_shape and name not in dimensions:
            raise ArgumentError(f"{value!r} is not a shape", where=f"shapes, {name}", hint="Give a tuple of extents")
        extents = tuple(value) if is_shape else (value,)
        if not all(isinstance(n, int | np.integer) and n >= 0 for n in extents):
            raise ArgumentError(f"extents must be whole numbers, not {value!r}", where=f"shapes, {name}")
        whole = tuple(map(int, extents))
        found[name] = whole if is_shape else whole[0]
    _check_agreement(found, inputs)
    return found


def _check_agreement(given: Mapping[str, tuple[int, ...] | int], inputs: Iterable[DeclaredValue]) -> None:
    """Raise `ArgumentError` if given shapes contradict each other, or have not as many dimensions as declared."""
    extents = {name: each for name, each in given.items() if isinstance(each, int)}
    for each in inputs:
        shape, said = given.get(each.name), each.dimensions
        if not isinstance(shape, tuple) or said is None or each.is_sequence:
            continue
        if len(shape) == len(said):  # other extents than declared ones may be given
            said = tuple(n if isinstance(d, int) else d for n, d in zip(shape, said, strict=True))
        fitting_shape(replace(each, dimensions=said), shape, extents)


def element_of(name: str) -> str:
    """Return the name of the sequence of which a name is one of an element: ``x`` of ``x[0]``; else nothing."""
    sequence, _, rest = name.rpartition("[")
    return sequence if rest.endswith("]") and rest[:-1].isdecimal() else ""


def fitting_shape(each: DeclaredValue, shape: tuple[int, ...], extents: dict[str, int]) -> tuple[int, ...]:
    """Check a shape against an input's declaration and record extents of named dimensions; return the shape."""
    if each.dimensions is None:
        return shape
    wrong = len(shape) != len(each.dimensions)
    for dimension, extent in zip(each.dimensions, shape, strict=False):
        known = extents.setdefault(dimension, extent) if isinstance(dimension, str) else dimension
        wrong = wrong or known not in (None, extent)
    if wrong:
        wanted = extents_text(
            "?" if d is None else f"{d}={extents[d]}" if isinstance(d, str) and d in extents else str(d)
            for d in each.dimensions
        )
        raise ArgumentError(
            f"it has the shape {extents_text(shape)}, and the model wants {wanted}",
            where=f"input {each.name!r}",
        )
    return shape
