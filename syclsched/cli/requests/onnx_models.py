# SPDX-License-Identifier: Apache-2.0
"""ONNX models on the command line: loading, inputs from files or random ones, checks and output tables."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from syclsched.cli.output_files import write_bytes
from syclsched.errors import ArgumentError, ValueNeededError, did_you_mean
from syclsched.frontends.onnx.model_file.model_limits import ModelLimits
from syclsched.model.text.units import format_seconds, plural, shortened
from syclsched.onnx.call_inputs import CallInputs, CallValues
from syclsched.onnx.model import OnnxModel, element_of, load
from syclsched.onnx.shapes.buckets import POWERS, Buckets
from syclsched.onnx.specialised import Array, Specialised
from syclsched.workloads.base import CheckResult, Workload, check_residual
from syclsched.workloads.numpy_files import read_arrays

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.frontends.onnx.model_file.onnx_model import DeclaredValue
    from syclsched.model.plan import Plan
    from syclsched.model.trace import Trace

#: Tolerated difference from ONNX Runtime's result, relative to the largest number of the output.
_TOLERANCE = 1e-3
#: The same for models that round to 8 bits: another order of sums may round a value to the next step.
_QUANTISED_TOLERANCE = 0.1
_QUANTISED = re.compile("QuantizeLinear|QLinear|QGemm|QAttention")
#: Maximum number of rows of the operator table.
_ROWS = 16
#: Maximum length of operator names; longer ones are truncated.
_LONGEST = 160
#: Maximum number of inputs of a batch for which the best classes are shown.
_INPUTS = 8
_RANDOM = "random"


@dataclass(eq=False)
class ModelWithInputs:
    """A model with values for its inputs."""

    model: OnnxModel
    path: str
    specialised: Specialised  # for the shapes of the inputs
    given: dict[str, Any]  # input values
    values: CallValues  # those of the graph's inputs
    expected: dict[str, Any] | None = None  # reference outputs
    found: dict[str, Array] = field(default_factory=dict)  # outputs of the last check

    def workload(self) -> Workload:
        """Return the model as a workload with inputs and a result check."""
        return Workload(
            self.model.name,
            self.specialised.graph,
            self.specialised.fetched,
            self.check,
            inputs=self.specialised.given(self.values),
        )

    def check(self, arrays: Mapping[str, Array]) -> CheckResult:
        """Store the outputs, and compare them with the reference or, without one, check that they are finite."""
        self.found = as_arrays(self.values.results(self.specialised.results(arrays)))
        if self.expected is None:
            bad = sum(int((~np.isfinite(a)).sum()) for a in self.found.values() if a.dtype.kind == "f")
            return check_residual(
                bad, 0, "in that outputs are finite (compared with nothing); NaN and infinite numbers"
            )
        expected = as_arrays(self.expected)
        worst = max((_difference(self.found[name], value) for name, value in expected.items()), default=0.0)
        says = "largest difference from ONNX Runtime / largest number of the output"
        if any(map(_QUANTISED.search, chain.from_iterable(self.specialised.origins.values()))):
            return check_residual(worst, _QUANTISED_TOLERANCE, f"{says} (values of 8 bits)")
        return check_residual(worst, _TOLERANCE, says)


def _difference(found: Array, expected: Array) -> float:
    if found.shape != expected.shape:
        return float("inf")
    if not expected.size:
        return 0.0
    if expected.dtype.kind in "OU":
        return 0.0 if np.array_equal(found, expected) else float("inf")
    a, b = found.astype(np.float64), expected.astype(np.float64)
    return float(np.abs(a - b).max() / (np.abs(b).max() or 1.0))


def as_arrays(found: Mapping[str, Any]) -> dict[str, Array]:
    """Return outputs as arrays: those of sequences as ``name[0]``, rows of maps as their numbers; none of no value."""
    arrays: dict[str, Array] = {}
    for name, value in found.items():
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            arrays[name] = np.array([list(row.values()) for row in value])
        elif isinstance(value, list):
            arrays.update((f"{name}[{i}]", np.asarray(each)) for i, each in enumerate(value))
        elif value is not None:
            arrays[name] = np.asarray(value)
    return arrays


def read_model_with_inputs(
    path: str,
    inputs: Sequence[str] | None = None,
    shapes: Sequence[str] | None = None,
    seed: int | None = None,
    buckets: Sequence[str] | None = None,
) -> ModelWithInputs:
    """Read a model and its inputs; numbers not given are random, texts empty, and optional values left out."""
    model = load(path)
    named = _named_inputs(model, inputs or ())
    asked: dict[str, tuple[int, ...] | int] = _shapes(model, shapes or ())
    asked.update({name: tuple(value.shape) for name, value in named.items()})
    full = model.full_shapes(asked)
    random = np.random.default_rng(0 if seed is None else seed)

    def value(each: DeclaredValue, name: str) -> Array:
        if name in named:
            return named[name]
        if each.dtype == "text":
            return np.full(_text_shape(each, asked), "", object)
        return _random(random, full[name], model.dtype(name), name)

    given: dict[str, Any] = {}
    for each in model.inputs:
        if each.dtype == "map":
            raise ArgumentError(
                "it is a map, which the command line cannot give",
                where=f"input {each.name!r}",
                hint="Call the model in Python: syclsched.compile",
            )
        elements = [name for name in full if element_of(name) == each.name]
        if each.is_sequence and (elements or not each.is_optional):
            given[each.name] = [value(each, name) for name in elements]
        elif not each.is_optional or each.name in asked:
            given[each.name] = value(each, each.name)
    given |= {each.name: named[each.name] for each in model.defaulted if each.name in named}
    values = CallInputs(model, ()).values((), given)
    sizes = Buckets(dict(map(_bucket, buckets)), model) if buckets else None
    if sizes is not None:
        values = sizes.padded(values, {})
    found = _specialised_with(model, {name: tuple(each.shape) for name, each in values.items()}, values, sizes)
    return ModelWithInputs(model, path, found, given, values)


def _text_shape(each: DeclaredValue, asked: Mapping[str, tuple[int, ...] | int]) -> tuple[int, ...]:
    """Return the shape of an input of text as it is asked for or declared, with 1 for open dimensions."""
    shape = asked.get(each.name)
    if isinstance(shape, tuple):
        return shape
    extents = [asked.get(d) if isinstance(d, str) else d for d in each.dimensions or ()]
    return tuple(n if isinstance(n, int) else 1 for n in extents)


def _specialised_with(
    model: OnnxModel, shapes: Mapping[str, tuple[int, ...]], values: Mapping[str, Array], buckets: Buckets | None
) -> Specialised:
    """Specialise a model for input shapes, and for the values of inputs that other shapes depend on."""
    known: dict[str, Array] = {}
    while True:
        try:
            return model.specialised(shapes, known, counted=None if buckets is None else buckets.axes(shapes))
        except ValueNeededError as error:
            if buckets is not None:
                buckets.check_inputs(error)
            if not set(error.inputs) - set(known) or not set(error.inputs) <= set(values):
                raise
            known.update({name: values[name] for name in error.inputs})


def _random(random: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> Array:
    size, most = math.prod(shape) * dtype.itemsize, ModelLimits().memory_bytes
    if size > most:
        raise ArgumentError(
            f"{' x '.join(map(str, shape))} {dtype.name} are {size:,} bytes, more than the {most:,} bytes of memory "
            "available",
            where=f"input {name!r}",
        )
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    if "mask" in name:
        return np.ones(shape, dtype)
    return random.integers(0, 2, shape).astype(dtype)


def _named_inputs(model: OnnxModel, inputs: Sequence[str]) -> dict[str, Array]:
    names = [each.name for each in (*model.inputs, *model.defaulted)]
    found: dict[str, Array] = {}
    position = 0
    lists = [each.name for each in model.inputs if each.is_sequence]
    for text in inputs:
        name, equals, file = text.rpartition("=")
        if not equals and file == _RANDOM:
            position += 1
            continue
        if equals and name not in names and element_of(name) not in lists:
            raise ArgumentError(
                f"the model has no input {name!r}",
                where="--input",
                hint=did_you_mean(name, names) + f"Its inputs are {', '.join(names)}",
            )
        if file == _RANDOM:
            continue
        arrays = read_arrays(file)
        if None not in arrays:  # several named arrays
            unknown = [str(key) for key in arrays if key not in names]
            if unknown or equals:
                raise ArgumentError(
                    f"the model has no input {unknown[0]!r}" if unknown else "the arrays in it have names of their own",
                    where=f"--input {text}",
                    hint=f"Its inputs are {', '.join(names)}",
                )
            for key, value in arrays.items():
                _put(found, str(key), value, "--input")
            continue
        if not equals:
            if position >= len(names):
                raise ArgumentError(
                    f"the model has {plural(len(names), 'input')}, and more are given",
                    where="--input",
                    hint=f"Its inputs are {', '.join(names) or 'none'}",
                )
            name, position = names[position], position + 1
        _put(found, name, arrays[None], "--input")
    return found


def _put(found: dict[str, Any], name: str, value: object, where: str) -> None:
    """Add the value of an option to those of other names."""
    if name in found:
        raise ArgumentError(f"two values are given for {name!r}", where=where, hint="Give each name once")
    found[name] = value


def _shapes(model: OnnxModel, shapes: Iterable[str]) -> dict[str, tuple[int, ...] | int]:
    names = [each.name for each in model.inputs]
    lists = [each.name for each in model.inputs if each.is_sequence]
    open_ones = {d for each in model.inputs for d in each.dimensions or () if isinstance(d, str)}
    found: dict[str, tuple[int, ...] | int] = {}
    for text in shapes:
        name, equals, extents = text.rpartition("=")
        numbers = extents.split("x")
        if not all(n.isdecimal() for n in numbers):
            raise ArgumentError(
                f"{text!r} is not a shape", where="--shape", hint="As name=1x3x224x224, or batch=1 for a dimension"
            )
        if not equals:
            if len(names) != 1:
                raise ArgumentError(
                    f"{text!r} does not say of which input",
                    where="--shape",
                    hint=f"As {names[0]}={text}" if names else "The model has no inputs",
                )
            name = names[0]
        is_input = name in names or element_of(name) in lists
        if not is_input and name not in open_ones:
            raise ArgumentError(
                f"the model has no input and no open dimension {name!r}",
                where="--shape",
                hint=did_you_mean(name, [*names, *open_ones])
                + f"Inputs: {', '.join(names)}; open dimensions: {', '.join(sorted(open_ones)) or 'none'}",
            )
        if not is_input and len(numbers) > 1:
            raise ArgumentError(
                f"{extents!r} is no extent of the dimension {name!r}", where="--shape", hint=f"As {name}={numbers[0]}"
            )
        _put(found, name, tuple(map(int, numbers)) if is_input else int(numbers[0]), "--shape")
    return found


def _bucket(text: str) -> tuple[str, tuple[int, ...] | int | str]:
    """Return a dimension and its bucket, as `syclsched.compile` takes them."""
    name, _, sizes = text.rpartition("=")
    if name and sizes == "powers":
        return name, POWERS
    numbers = sizes.split(",")
    if not name or not all(n.isdecimal() for n in numbers):
        raise ArgumentError(
            f"{text!r} is no bucket",
            where="--bucket",
            hint="As batch=1,8,32 for these sizes, batch=8 for multiples of 8, or batch=powers for powers of two",
        )
    found = tuple(map(int, numbers))
    return name, found if len(found) > 1 else found[0]


# --- outputs ----------------------------------------------------------------------------------------


def write_outputs(path: Path, found: Mapping[str, Array]) -> None:
    """Write outputs by name."""
    # Made in memory: zipfile seeks in a file that failed once more, when it is collected.
    made = io.BytesIO()
    np.savez(made, **{name: value.astype(str) if value.dtype == object else value for name, value in found.items()})
    write_bytes(path, made.getvalue())


def show_outputs(found: Mapping[str, Array], top: int, labels: Sequence[str] | None, console: Console) -> None:
    """Print the outputs: shape and range of each, and of scores the best few."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Outputs", title_justify="left")
    for column in ("output", "dtype", "shape", "least", "mean", "most"):
        table.add_column(column, justify="left" if column in ("output", "dtype", "shape") else "right")
    for name, value in found.items():
        shape = " x ".join(map(str, value.shape)) or "-"
        is_text = value.dtype.kind in "OU"
        numbers = [f"{part(value):.6g}" if value.size and not is_text else "-" for part in (np.min, np.mean, np.max)]
        table.add_row(Text(name), "text" if is_text else value.dtype.name, shape, *numbers)
    console.print(table)
    for name, value in found.items():
        rows = value.shape[0] if value.ndim > 1 else 1
        if not top or value.dtype.kind != "f" or not rows or value.size != rows * max(value.shape[1:] or value.shape):
            continue  # not one score for each class
        for row, scores in enumerate(value.reshape(rows, -1)[:_INPUTS]):
            _show_best(name if rows == 1 else f"{name}[{row}]", scores, top, labels, console)


def _show_best(name: str, scores: Array, top: int, labels: Sequence[str] | None, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(f"Best of {name}"), title_justify="left")
    table.add_column("class", justify="right")
    if labels is not None:
        table.add_column("name")
    table.add_column("score", justify="right")
    for index in np.argsort(-scores, kind="stable")[:top]:
        label = [] if labels is None else [Text(labels[index] if index < len(labels) else "?")]
        table.add_row(str(index), *label, f"{scores[index]:.4f}")
    console.print(table)


def show_operators(given: ModelWithInputs, plan: Plan, trace: Trace, console: Console) -> None:
    """Print the time of a run by operator of the model, and the operators on the host."""
    from rich.table import Table
    from rich.text import Text

    from syclsched.frontends.onnx.reference import REFERENCE
    from syclsched.onnx.report import measured_times

    times = measured_times([trace], plan, given.specialised.origins)
    total = sum(each.seconds for each in times) or 1.0
    ordered = sorted(times, key=lambda each: -each.seconds)
    table = Table(title=f"The model's operators that take longest ({len(times)} tasks)", title_justify="left")
    for column in ("operators", "device", "by", "time", "%"):
        table.add_column(column, justify="right" if column in ("time", "%") else "left", overflow="fold")
    for each in ordered[:_ROWS]:
        share = f"{100 * each.seconds / total:.1f}"
        row = (
            Text(shortened(each.operator, _LONGEST)),
            each.device,
            each.implementation,
            format_seconds(each.seconds),
            share,
        )
        table.add_row(*row)
    rest = ordered[_ROWS:]
    if rest:
        seconds = sum(each.seconds for each in rest)
        table.add_row(f"{len(rest)} more", "", "", format_seconds(seconds), f"{100 * seconds / total:.1f}")
    console.print(table)
    for line in given.specialised.rewrites:
        console.print(Text(f"rewritten: {line}"))
    for each in ordered:
        if each.implementation == REFERENCE:
            console.print(
                Text(f"on the host, by onnx's reference implementation: {each.operator}", "yellow"), soft_wrap=True
            )
