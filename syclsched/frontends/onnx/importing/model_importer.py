# SPDX-License-Identifier: Apache-2.0
"""Entry point of the import: converts a model to a network for given input shapes."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

import numpy as np

from syclsched.errors import DeclaredShapeWarning, ModelError, OpenDimensionError
from syclsched.frontends.onnx.importing.control_flow import CONTROL_FLOW_IMPORTERS
from syclsched.frontends.onnx.importing.import_state import SEED, TrainingImport
from syclsched.frontends.onnx.importing.lengths import EXTENT_INPUT, CountedAxes, Length, Lengths
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.scope import Scope, TensorSequence
from syclsched.frontends.onnx.importing.training.gradient import GRADIENT_IMPORTERS, free_differentiated
from syclsched.frontends.onnx.model_file.model_limits import ModelLimits
from syclsched.frontends.onnx.model_file.onnx_model import DeclaredValue, Model, separate_inputs
from syclsched.frontends.onnx.network import Network
from syclsched.frontends.onnx.observed_extents import ObservedExtents

Shape = tuple[int, ...]

_FAMILIES: Final = ("nn", "tensor", "ml", "microsoft", "training")


@cache
def load_families() -> None:
    """Import the modules that register importers."""
    for family in _FAMILIES:
        package = importlib.import_module(f"{__package__}.{family}")
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")


def import_model(
    model: Model,
    shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    dimensions: Mapping[str, int] | None = None,
    known: Mapping[str, Any] | None = None,
    limits: ModelLimits | None = None,
    carried: Collection[str] = (),
    training: TrainingImport | None = None,
    observed: ObservedExtents | None = None,
    observing: bool = False,
    counted: CountedAxes | None = None,
) -> Network:
    """Import a model for given shapes of its inputs, which replace extents that the model declares.

    Nodes may overwrite the inputs that are ``carried`` from call to call. For training, the network has a further input
    for the random numbers of dropout, if it has any, and further outputs with the next values of running moments.
    Extents that values decide have upper bounds by what is ``observed``; ``observing`` adds those of the known values.
    Axes of inputs that are ``counted`` have as many elements as further inputs say. Inputs with default values are
    constants unless a shape or value is given.
    """
    load_families()
    for name, shape in (shapes or {}).items():
        for extent in shape:
            _check_extent(extent, f"{model.where}, input {name!r}")
    model = model.with_given({*(shapes or {}), *(known or {})}).with_shapes(shapes or {})
    inputs, composed = separate_inputs(model.inputs, {*(shapes or {}), *(known or {})})
    model = replace(model, graph=replace(model.graph, inputs=inputs))
    b = NetworkBuilder(model.where, model.opset, model.opsets, limits or ModelLimits())
    b.carried = frozenset(carried)
    b.observed, b.is_observing = observed, observing
    scope = Scope(b, {**CONTROL_FLOW_IMPORTERS, **GRADIENT_IMPORTERS})
    scope.add_constants(model.graph.initialisers)
    _declare_inputs(b, scope, model, dict(shapes or {}), dict(dimensions or {}), dict(known or {}))
    if counted is not None:
        _declare_counted(b, counted)
    for each in composed:
        items = None if each.items is None else tuple(map(scope.tensor, each.items))
        found = None if items is None else TensorSequence(items, each.declared.dtype or "float32")
        scope.bind(each.declared.name, found)
    if training is not None:
        b.training = training
        b.add_input(SEED, (1,), "uint32")
    free_differentiated(scope, model.graph.nodes)
    scope.run(model.graph.nodes)
    outputs, composition = _outputs(b, scope, model)
    if training is not None:
        outputs += [(f"next {name}", value) for name, value in training.next_values.items()]
        composition |= {f"next {name}": f"next {name}" for name in training.next_values}
    is_plain = all(isinstance(each, str) for each in composition.values())
    return replace(b.finish(model.name, outputs), composition={} if is_plain else composition)


def _outputs(
    b: NetworkBuilder, scope: Scope, model: Model
) -> tuple[list[tuple[str, str]], dict[str, str | tuple[str, ...] | None]]:
    """Return the network's outputs, pairs of name and value, and which of them each output of the model is."""
    outputs: list[tuple[str, str]] = []
    composition: dict[str, str | tuple[str, ...] | None] = {}
    for name, output in {output.name: output for output in model.outputs}.items():
        value = scope.meaning(name)
        if isinstance(value, TensorSequence):
            parts = [(f"{name}[{i}]", item) for i, item in enumerate(value.items)]
            composition[name] = tuple(part for part, _ in parts)
            outputs += parts
        elif value is None:
            composition[name] = None
        else:
            composition[name] = name
            outputs.append((name, value))
            _check_output(output, b.shape(value), b.element(value), model.where, b.lengths.get(value, ()))
    return outputs, composition


def _declare_inputs(
    b: NetworkBuilder,
    scope: Scope,
    model: Model,
    shapes: dict[str, Sequence[int]],
    dimensions: dict[str, int],
    known: dict[str, Any],
) -> None:
    """Declare a model's inputs with concrete extents; raise `OpenDimensionError` if some are missing."""
    names = [declared.name for declared in model.inputs]
    for what, given in (("shape", shapes), ("value", known)):
        for name in given:
            if name not in names:
                raise ModelError(
                    f"a {what} was given for {name!r}, which is no input",
                    where=model.where,
                    hint=f"Inputs: {', '.join(map(_describe_input, model.inputs))}",
                )
    named = {d for declared in model.inputs for d in declared.dimensions or () if isinstance(d, str)}
    for name, extent in dimensions.items():
        if name not in named:
            raise ModelError(
                f"an extent was given for {name!r}, which is no open dimension",
                where=model.where,
                hint=f"Open: {', '.join(sorted(named)) or 'none'}",
            )
        _check_extent(extent, f"{model.where}, dimension {name!r}")
    for declared in model.inputs:
        where = f"{model.where}, input {declared.name!r}"
        if declared.name in known:
            array = np.array(known[declared.name], order="C")
            if array.dtype.kind in "iuf" and declared.dtype is not None and not hasattr(known[declared.name], "dtype"):
                array = array.astype(declared.dtype)
            if declared.dtype not in (None, array.dtype.name):
                raise ModelError(f"its value is {array.dtype}, expected {declared.dtype}", where=where)
            _bind(declared, array.shape, dimensions, where)
            scope.bind(declared.name, b.constant(array))
        elif declared.name in shapes:
            _bind(declared, tuple(shapes[declared.name]), dimensions, where)
    missing: list[str] = []
    for declared in model.inputs:
        if declared.name in known:
            continue
        if declared.dtype is None:
            raise ModelError("the model does not say its element type", where=f"{model.where}, input {declared.name!r}")
        if declared.name in shapes:
            shape = tuple(int(n) for n in shapes[declared.name])
        elif declared.dimensions is None:
            missing.append(declared.name)
            continue
        else:
            extents = [dimensions.get(d) if isinstance(d, str) else d for d in declared.dimensions]
            missing += [
                d if isinstance(d, str) else f"{declared.name}[{axis}]"
                for axis, (d, extent) in enumerate(zip(declared.dimensions, extents, strict=True))
                if extent is None
            ]
            shape = tuple(extent for extent in extents if extent is not None)
        if not missing:
            b.add_input(declared.name, shape, declared.dtype)
            scope.bind(declared.name, declared.name)
    if missing:
        names_open = tuple(dict.fromkeys(missing))
        raise OpenDimensionError(
            f"it leaves open {', '.join(map(repr, names_open))}",
            names=names_open,
            where=model.where,
            hint=f"Give the inputs' shapes; it declares {', '.join(map(_describe_input, model.inputs))}",
        )


def _declare_counted(b: NetworkBuilder, counted: CountedAxes) -> None:
    """Add the inputs that say how much of other inputs counts."""
    for name in counted.extents:
        b.add_input(name, (), "int64")
        b.extent_inputs[name] = name.removeprefix(EXTENT_INPUT.format(""))
    for name, axes in counted.axes.items():
        b.give_lengths(name, (Length(axis, count) for axis, count in axes.items()))
    for name, total in counted.sums.items():
        b.bounds[name] = total.bound
        b.extent_formulas["add", (total.number,), tuple(sorted(total.counts))] = name


def _check_output(declared: DeclaredValue, shape: Shape, dtype: str, where: str, lengths: Lengths) -> None:
    """Raise if an output's dtype is not the declared one; warn if the shape differs, as some exporters err there."""
    place = f"{where}, output {declared.name!r}"
    if declared.dtype not in (None, dtype):
        raise ModelError(f"its elements are {dtype}, and {declared.dtype} is declared", where=place)
    said, counted = declared.dimensions, {each.axis for each in lengths}
    if said is not None and (
        len(said) != len(shape)
        or any(
            isinstance(d, int) and d != n and axis not in counted
            for axis, (d, n) in enumerate(zip(said, shape, strict=True))
        )
    ):
        warnings.warn(
            f"{place}: its shape is {shape}, and {declared.shape_text} is declared",
            DeclaredShapeWarning,
            stacklevel=3,
        )


def _check_extent(extent: object, where: str) -> None:
    if isinstance(extent, bool) or not isinstance(extent, int | np.integer) or extent < 0:
        raise ModelError(f"{extent!r} is no extent, expected an integer that is not negative", where=where)


def _bind(declared: DeclaredValue, shape: Shape, dimensions: dict[str, int], where: str) -> None:
    """Check a shape against the declaration and record the extents of named dimensions."""
    expected = declared.dimensions
    if expected is None:
        return
    fits = len(expected) == len(shape)
    if fits:
        for extent, said in zip(shape, expected, strict=True):
            if isinstance(said, str):
                fits = fits and dimensions.setdefault(said, int(extent)) == extent
            elif said is not None:
                fits = fits and said == extent
    if not fits:
        bound = {d: dimensions[d] for d in expected if isinstance(d, str) and d in dimensions}
        note = f" with {', '.join(f'{d} = {n}' for d, n in bound.items())}" if bound else ""
        raise ModelError(f"shape {shape}, expected {declared.shape_text}{note}", where=where)


def _describe_input(declared: DeclaredValue) -> str:
    """Format a declared input: ``image: float32 (batch, 3, ?, ?)``."""
    return f"{declared.name}: {declared.dtype} {declared.shape_text}"
