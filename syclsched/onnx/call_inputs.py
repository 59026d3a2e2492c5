# SPDX-License-Identifier: Apache-2.0
"""Inputs of a model's calls: checks, conversion to the tensors of its graph, and computations on text by the host."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.frontends.onnx.model_file.onnx_model import DeclaredValue, HostParts, empty_sequence
from syclsched.model.text.units import plural
from syclsched.onnx.model import OnnxModel, fitting_shape
from syclsched.onnx.specialised import Array


class CallValues(dict[str, Any]):
    """The values of the graph's inputs in one call, by name; with further values for the model's outputs."""

    __slots__ = ("_host", "_known")

    def __init__(self, values: Mapping[str, Any], host: HostParts | None, known: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._host, self._known = host, known

    @property
    def has_host(self) -> bool:
        """Whether the host computes a part of the model."""
        return self._host is not None

    def replaced(self, values: Mapping[str, Any]) -> CallValues:
        """Return other values of the graph's inputs for the same call."""
        return CallValues(values, self._host, self._known)

    def results(self, made: Mapping[str, Array]) -> dict[str, Any]:
        """Return the model's outputs for those of its graph."""
        if self._host is None:
            return dict(made)
        found = {**self._known, **made}
        if self._host.after is not None:
            from syclsched.frontends.onnx.text_evaluation import evaluate_part

            found |= evaluate_part(self._host.after, found)
        return {each.name: found[each.name] for each in self._host.outputs if each.name in found}


class CallInputs:
    """Converts the inputs of a model's calls; inputs that are carried from call to call are left out."""

    def __init__(self, model: OnnxModel, carried: Collection[str]) -> None:
        self._model, self._where = model, f"model {model.name!r}"
        self._declared = {each.name: each for each in model.inputs if each.name not in carried}
        #: Inputs that calls may leave out, since the model has a value for them.
        self._defaulted = {each.name: each for each in model.defaulted if each.name not in carried}
        self._names = (*self._declared, *self._defaulted)
        graph = [each.name for each in model.tensors(()) if each.name not in carried]
        #: The dtypes of the graph's inputs; none if these differ from call to call.
        self.dtypes = {} if model.is_composed else {name: model.dtype(name) for name in graph}
        #: Whether all inputs are tensors of numbers, and the model has no other parts.
        self.are_plain = not model.is_composed and model.host is None

    def values(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> CallValues:
        """Return the value of every input of the graph, in its dtype."""
        given = self._by_name(inputs, named)
        if self.are_plain:
            tensors = {name: _tensor(name, given[name], kind) for name, kind in self.dtypes.items()}
            return CallValues(tensors if len(given) == len(tensors) else tensors | self._defaults(given), None, {})
        values: dict[str, Any] = self._defaults(given)
        known: dict[str, Any] = {}
        for name, declared in self._declared.items():
            is_hosted = declared.dtype in ("text", "map")
            found = self._converted(declared, given.get(name), known if is_hosted else values)
            if self._model.host is not None:
                known[name] = found
        host = self._model.host
        if host is not None and host.before is not None:
            from syclsched.frontends.onnx.text_evaluation import evaluate_part

            made = evaluate_part(host.before, known)
            known |= made
            for each in self._model.tensors(values):
                if each.name in made:
                    values[each.name] = np.asarray(made[each.name], self._model.dtype(each.name))
        return CallValues(values, host, known)

    def dtypes_of(self, shapes: Collection[str]) -> dict[str, np.dtype[Any]]:
        """Return the dtypes of the inputs of a plan, in the order of `values`; none if they differ from call to call.

        Nor are there any if inputs by position would be others than those of the plan.
        """
        given = [name for name in self._defaulted if name in shapes]
        if not given or not self.dtypes:
            return self.dtypes
        if given != [*self._defaulted][: len(given)]:
            return {}
        return {**self.dtypes, **{name: self._model.dtype(name) for name in given}}

    def _defaults(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values given in place of default values."""
        return {name: _tensor(name, given[name], self._model.dtype(name)) for name in self._defaulted if name in given}

    def _by_name(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        if len(inputs) == 1 and isinstance(inputs[0], Mapping) and not self._is_one_map(inputs[0], named):
            by_position: Mapping[str, Any] = inputs[0]
        elif len(inputs) > len(self._names):
            raise ArgumentError(
                f"{plural(len(inputs), 'input')} by position, and the model takes {len(self._names)}",
                where=self._where,
                hint=f"Its inputs are {', '.join(self._names) or 'none'}",
            )
        else:
            by_position = dict(zip(self._names, inputs, strict=False))
        doubled = by_position.keys() & named.keys() if named else ()
        if doubled:
            raise ArgumentError(
                f"two values are given for {', '.join(name for name in by_position if name in doubled)}",
                where=self._where,
                hint="Give each input once: by position, in a mapping, or by keyword",
            )
        given = {**by_position, **named}
        missing = [name for name, each in self._declared.items() if name not in given and not each.is_optional]
        unknown = [str(name) for name in given if name not in self._declared and name not in self._defaulted]
        if missing or unknown:
            said = [f"no value is given for {', '.join(missing)}"] if missing else []
            said += [f"there is no input {', '.join(unknown)}"] if unknown else []
            hint = f"Its inputs are {', '.join(self._declared) or 'none'}"
            hint += f", and with default values {', '.join(self._defaulted)}" if self._defaulted else ""
            held = [name for name in unknown if self._model.has_value(name)]
            if held:
                hint += f". The model has a value for {', '.join(held)}: without that initialiser it is an input"
            raise ArgumentError(", and ".join(said), where=self._where, hint=hint)
        return given

    def _is_one_map(self, given: Mapping[Any, Any], named: Mapping[str, Any]) -> bool:
        """Return whether a map is the value of the only input, and not the inputs by name."""
        (first, *others) = self._declared.values() or (None,)
        is_map = first is not None and not others and first.dtype == "map" and not first.is_sequence
        if not is_map or named:
            return False
        return not (set(given) == set(self._declared) and isinstance(next(iter(given.values())), dict))

    def _converted(self, declared: DeclaredValue, value: Any, values: dict[str, Any]) -> Any:
        """Return the value of an input; and put it, or each tensor of a sequence, in ``values``."""
        name = declared.name
        if value is None:
            if declared.is_optional:
                return None
            raise _missing(name, "a list of arrays" if declared.is_sequence else "an array")
        if not declared.is_sequence:
            values[name] = self._single(name, declared, value)
            return values[name]
        if not isinstance(value, list | tuple):
            raise ArgumentError(
                f"a {type(value).__name__} is given, and the model takes a sequence",
                where=f"input {name!r}",
                hint="Give a list of arrays" if declared.dtype != "map" else "Give a list of dicts",
            )
        found = [self._single(f"{name}[{i}]", declared, each) for i, each in enumerate(value)]
        if declared.dtype not in ("text", "map"):
            values.update((f"{name}[{i}]", each) for i, each in enumerate(found))
            if not found:
                values[empty_sequence(name)] = np.zeros(0, bool)
        return found

    def _single(self, name: str, declared: DeclaredValue, value: Any) -> Any:
        if value is None:
            raise _missing(name)
        if declared.dtype == "map":
            if isinstance(value, Mapping):
                return value
            raise ArgumentError(
                f"a {type(value).__name__} is given, and the model takes a map from names to numbers",
                where=f"input {name!r}",
                hint="Give a dict",
            )
        if declared.dtype != "text":
            return _tensor(name, value, self._model.dtype(name))
        text = _text(name, value)
        fitting_shape(declared, text.shape, {})
        return text


def _missing(name: str, wanted: str = "an array") -> ArgumentError:
    return ArgumentError("it is None, and the model needs a value", where=f"input {name!r}", hint=f"Give {wanted}")


def _tensor(name: str, value: Any, dtype: np.dtype[Any]) -> Any:
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        if value is None:
            raise _missing(name)
        try:
            found = np.asarray(value, dtype)
            if dtype.kind in "biu" and not np.array_equal(found, np.asarray(value)):
                raise ValueError("not all elements are numbers of this type")
        except (ValueError, TypeError, OverflowError) as error:
            raise ArgumentError(f"this is no array of {dtype.name}: {error}", where=f"input {name!r}") from error
        return found
    if value.dtype != dtype:
        raise ArgumentError(
            f"its dtype is {value.dtype}, and the model takes {dtype.name}",
            where=f"input {name!r}",
            hint=f"Convert it with astype({dtype.name!r})",
        )
    return value


def _text(name: str, value: Any) -> Array:
    """Return an array of str in the dtype object."""
    try:
        given = np.asarray(value) if hasattr(value, "dtype") else np.asarray(value, object)
        found = given if given.dtype.kind in "OU" else None
    except ValueError:  # rows of different lengths
        found = None
    if found is None:
        kind = getattr(value, "dtype", None) or type(value).__name__
        raise ArgumentError(
            f"a {kind} is given, and the model takes text",
            where=f"input {name!r}",
            hint="Give str, or an array of str: numbers with astype(str), bytes decoded",
        )
    found = found.astype(object)
    for index, each in enumerate(found.reshape(-1).tolist()):
        if type(each) is not str and not isinstance(each, str):
            raise ArgumentError(
                f"element {index} is {each!r} ({type(each).__name__}), and the model takes text",
                where=f"input {name!r}",
                hint="Replace missing values by a text, such as ''",
            )
    return found
