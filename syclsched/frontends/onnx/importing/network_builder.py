# SPDX-License-Identifier: Apache-2.0
"""Builder of networks: adds canonical nodes and folds those with constant inputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Final

import numpy as np

from syclsched.errors import SyclschedError
from syclsched.frontends.onnx.host_evaluation import evaluate_node
from syclsched.frontends.onnx.importing.equal_extents import broadcast_alike, joined_alike
from syclsched.frontends.onnx.importing.import_state import ImportState, Shape
from syclsched.frontends.onnx.importing.lengths import Length, LengthError, filled_up, followed_lengths
from syclsched.frontends.onnx.model_file.dtypes import (
    NARROW_FLOATS,
    NARROW_INTEGERS,
    carrier,
    dtype_name,
    is_narrow,
)
from syclsched.frontends.onnx.model_file.model_limits import ModelLimits
from syclsched.frontends.onnx.network import CanonicalNode, Network, Value, numbered_name
from syclsched.frontends.onnx.shapes import ShapeDtype, broadcast, infer, nbytes
from syclsched.kernels.tensor.writing.expression import result_dtype

#: Kinds that are folded if all inputs are constant. The other kinds are left to devices.
_FOLDED: Final = frozenset(
    {
        *("elementwise", "reduce", "arg", "topk", "scan_sum", "transpose", "gather", "gather_elements", "gather_nd"),
        *("scatter_elements", "scatter_nd", "concat", "slice", "pad", "resize", "softmax", "matmul", "batch_norm"),
    }
)
#: Kinds whose first output has elements of the first input only.
_MOVING: Final = frozenset({"transpose", "gather", "gather_elements", "gather_nd", "concat", "slice", "reshape"})


class NetworkBuilder(ImportState):
    """Incremental builder of a `Network`."""

    def __init__(self, where: str, opset: int, opsets: Mapping[str, int], limits: ModelLimits) -> None:
        super().__init__(where, opset, opsets, limits)
        self._node_name: str = ""
        self._made_now: set[str] = set()
        self._number = 0
        self._node_names: set[str] = set()
        self._before: tuple[Any, ...] = ({}, {}, {}, [])

    # --- adding ---------------------------------------------------------------------------------------

    def add_input(self, name: str, shape: Shape, dtype: str) -> str:
        """Declare an input of the network."""
        held = carrier(dtype)
        self._check_size(shape, held, f"input {name!r}")
        self.values[name] = Value(name, shape, held)
        if held != dtype:
            self.elements[name] = dtype
        self._inputs.append(name)
        return name

    def begin(self, name: str, label: str) -> None:
        """Start the import of an ONNX node."""
        self._node_name, self._label = name, label
        self._made_now = set()
        known = self.extent_roots, self.extent_scalars, self.extent_formulas, self.guards
        self._before = tuple(map(copy, known))

    def end(self, results: Sequence[str | None], names: Sequence[str]) -> dict[str, str]:
        """Finish the import of an ONNX node: its results get the model's names."""
        renamed: dict[str, str] = {}
        for result, name in zip(results, names, strict=False):
            if result in self._made_now and result not in renamed and name and name not in self.values:
                renamed[result] = name
        self._rename_values(renamed)
        for index, node in enumerate(_renamed(self._fresh, renamed), 1):
            base = self._node_name if index == len(self._fresh) else f"{self._node_name}.{index}"
            name, origin = numbered_name(base, self._node_names), (self._label,)
            self._add(CanonicalNode(name, node.kind, node.inputs, node.outputs, node.attributes, origin))
        if len(self._nodes) > self.limits.nodes:
            raise self.wrong(f"more than {self.limits.nodes:,} nodes")
        self._fresh = []
        self._label = ""
        return {
            name: renamed.get(result, result) for result, name in zip(results, names, strict=False) if result and name
        }

    def drop(self) -> None:
        """Discard the canonical nodes added for the current ONNX node."""
        self._fresh = []
        self.extent_roots, self.extent_scalars, self.extent_formulas, self.guards = map(copy, self._before)

    def add_node(self, node: CanonicalNode, made: Iterable[Value]) -> None:
        """Add a complete node and its results, which have names already."""
        self.values.update((each.name, each) for each in made)
        self._add(replace(node, name=numbered_name(node.name, self._node_names)))

    def _add(self, node: CanonicalNode) -> None:
        self._nodes.append(node)
        self._producers.update((each, node) for each in node.outputs if each is not None)

    @property
    def node_name(self) -> str:
        """The name of the current node."""
        return self._node_name

    def add_value(self, value: Value) -> str:
        """Declare a value, under another name if its own is taken; return the name."""
        name = self.fresh_name(value.name)
        self.values[name] = replace(value, name=name)
        return name

    def replace_nodes(self, nodes: Iterable[CanonicalNode]) -> None:
        """Have other nodes in place of those so far; the names of new ones are made unique."""
        known = {node.name for node in self._nodes}
        self._nodes = [
            node if node.name in known else replace(node, name=numbered_name(node.name, self._node_names))
            for node in nodes
        ]

    def constant(self, value: Any, dtype: Any = None, *, name: str = "") -> str:
        """Add a constant and return its name: the given one, if no other value has it."""
        array = np.asarray(value, dtype)
        element = dtype_name(array.dtype)
        held = carrier(element)
        array = array.astype(held, copy=False)
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        if array.flags.writeable:
            array = array.view()
            array.flags.writeable = False
        if not name or name in self.values:
            name = self._new_name()
        self.constants[name] = array
        self.values[name] = Value(name, array.shape, held)
        if is_narrow(element):
            self.elements[name] = element
        return name

    def add_constant(self, name: str, array: np.ndarray[Any, Any]) -> str:
        """Add a constant that keeps its name."""
        self.constants[name] = array
        self.values[name] = Value(name, array.shape, dtype_name(array.dtype))
        return name

    def emit(
        self,
        kind: str,
        inputs: Sequence[str | None],
        *,
        shape: Shape | None = None,
        dtype: str | None = None,
        folded: bool = True,
        **attributes: Any,
    ) -> str:
        """Add a canonical node with one output, folded if possible; return the output's name."""
        made = None if shape is None else ((shape, dtype or self._first(inputs).dtype),)
        name = self.emit_all(kind, inputs, made=made, folded=folded, **attributes)[0]
        assert name is not None
        return name

    def emit_all(
        self,
        kind: str,
        inputs: Sequence[str | None],
        *,
        made: Sequence[ShapeDtype] | None = None,
        wanted: Sequence[bool] | None = None,
        folded: bool = True,
        **attributes: Any,
    ) -> list[str | None]:
        """Add a canonical node with any number of outputs and return their names; see `emit`."""
        given = list(inputs)
        while given and given[-1] is None:
            given.pop()
        has_lengths = kind != "counted" and any(each in self.lengths for each in given)
        if has_lengths:
            if self.observed is not None:
                given = joined_alike(self, kind, given, attributes)
            given = filled_up(self, kind, given, attributes)
        if made is None:
            try:
                made = infer(kind, [None if each is None else self.values[each] for each in given], attributes)
            except SyclschedError as error:
                raise self.wrong(error.what, hint=error.hint) from None
        outputs: list[str | None] = []
        for index, (shape, dtype) in enumerate(made):
            if wanted is not None and not wanted[index]:
                outputs.append(None)
                continue
            self._check_size(shape, dtype, "its result")
            name = self._new_name()
            self.values[name] = Value(name, shape, dtype)
            outputs.append(name)
            if has_lengths:
                self.give_lengths(name, followed_lengths(self, kind, given, shape, attributes))
        if given and (kind in _MOVING or attributes.get("expression", -1) == 0) and given[0] in self.elements:
            self.elements[outputs[0] or ""] = self.elements[given[0] or ""]
        node = CanonicalNode(f"{self._node_name}.{len(self._fresh)}", kind, tuple(given), tuple(outputs), attributes)
        if folded and self._foldable(node):
            self._fold(node)
        else:
            self._fresh.append(node)
        return outputs

    def give_lengths(self, name: str, lengths: Iterable[Length]) -> None:
        """Set the lengths of a value; none is allowed."""
        found = tuple(sorted(lengths, key=lambda each: each.axis))
        if found:
            self.lengths[name] = found
            self.bounds.update((each.count, self.shape(name)[each.axis]) for each in found)
        else:
            self.lengths.pop(name, None)

    def length_along(self, name: str, axis: int) -> str | None:
        """Return the count of a value's length along an axis; None if it has none."""
        return next((each.count for each in self.lengths.get(name, ()) if each.axis == axis), None)

    def formula(self, kind: str, numbers: tuple[int, ...], expression: Any, names: Sequence[str]) -> str:
        """Return the number computed from lengths by an expression; the same value for the same kind of formula."""
        key = kind, numbers, tuple(names)
        if key not in self.extent_formulas:
            self.extent_formulas[key] = self.elementwise(expression, *names, shape=(), dtype="int64")
        return self.extent_formulas[key]

    def with_all(self, x: str, shape: Shape) -> str:
        """Return a value reshaped, without lengths."""
        lengths = self.lengths.pop(x, None)
        made = self.emit("reshape", [x], shape=shape)
        if lengths is not None:
            self.lengths[x] = lengths
        return made

    def _foldable(self, node: CanonicalNode) -> bool:
        if node.kind not in _FOLDED and node.kind != "reshape":
            return False
        if not all(name in self.constants for name in node.inputs if name is not None):
            return False
        if node.kind != "reshape":
            for name in node.outputs:
                if name is not None:
                    self.check_folded(self.values[name].shape, self.values[name].dtype)
        return True

    def check_folded(self, shape: Shape, dtype: str) -> None:
        """Raise `ModelError` if an array is too large for constant folding."""
        size = nbytes(shape, dtype)
        if size > self.limits.folded_bytes:
            raise self.wrong(
                f"a constant {dtype} {shape} is {math.prod(shape):,} elements, {size:,} bytes; of what is computed "
                f"beforehand at most {self.limits.folded_bytes:,} bytes are accepted",
                hint="If that is meant, raise ModelLimits.folded_bytes",
            )

    def _fold(self, node: CanonicalNode) -> None:
        given = {name: self.constants[name] for name in node.inputs if name is not None}
        try:
            made = evaluate_node(node, self.values, given)
        except SyclschedError as error:
            raise self.wrong(error.what, hint=error.hint) from error
        for name, array in made.items():
            array = array if array.flags.c_contiguous else np.ascontiguousarray(array)
            array.flags.writeable = False
            self.constants[name] = array

    def _first(self, inputs: Sequence[str | None]) -> Value:
        return next(self.values[name] for name in inputs if name is not None)

    def fresh_name(self, base: str) -> str:
        """Return a name that no value has yet: the given one, or one with a number."""
        name = base
        while name in self.values:
            self._number += 1
            name = f"{base}/{self._number}"
        return name

    def _new_name(self) -> str:
        self._number += 1
        name = self.fresh_name(f"{self._node_name or 'value'}/{self._number}")
        self._made_now.add(name)
        return name

    def _check_size(self, shape: Shape, dtype: str, what: str) -> None:
        if any(n < 0 for n in shape):
            raise self.wrong(f"{what} would have shape {shape}")
        if len(shape) > self.limits.dimensions:
            raise self.wrong(
                f"{what} would have {len(shape)} dimensions, at most {self.limits.dimensions} are supported"
            )
        size = nbytes(shape, dtype)
        if size > self.limits.memory_bytes:
            raise self.wrong(
                f"{what} would be {dtype} {shape}: {math.prod(shape):,} elements, {size:,} bytes, more than the "
                f"{self.limits.memory_bytes:,} bytes of memory there are"
            )

    # --- common operations ----------------------------------------------------------------------------

    def elementwise(
        self,
        expression: Any,
        *inputs: str,
        shape: Shape | None = None,
        dtype: str | None = None,
        folded: bool = True,
    ) -> str:
        """Add an element-wise expression of broadcast inputs."""
        if shape is None and self.observed is not None and any(each in self.lengths for each in inputs):
            inputs = tuple(broadcast_alike(self, inputs))
        try:
            extents = broadcast([self.shape(each) for each in inputs]) if shape is None else shape
            if dtype is None:
                dtype = result_dtype(expression, tuple(self.dtype(each) for each in inputs))
        except SyclschedError as error:
            raise self.wrong(error.what, hint=error.hint) from None
        return self.emit("elementwise", inputs, shape=extents, dtype=dtype, folded=folded, expression=expression)

    def reshape(self, x: str, shape: Shape) -> str:
        """Return a value reshaped."""
        if self.shape(x) == shape:
            return x
        if math.prod(self.shape(x)) != math.prod(shape):
            raise self.wrong(f"{self.shape(x)} cannot be reshaped to {shape}")
        return self.emit("reshape", [x], shape=shape)

    def transpose(self, x: str, permutation: Sequence[int]) -> str:
        """Return a value with permuted axes."""
        if tuple(permutation) == tuple(range(len(self.shape(x)))):
            return x
        return self.emit("transpose", [x], permutation=tuple(permutation))

    def cast(self, x: str, dtype: str) -> str:
        """Return a value converted to a dtype."""
        return x if self.dtype(x) == dtype else self.elementwise(("cast", dtype, 0), x)

    def copy(self, x: str) -> str:
        """Return a value with the same elements that is another one."""
        return self.emit("elementwise", [x], shape=self.shape(x), expression=0)

    def narrowed(self, x: str, element: str, *, cut: bool = True) -> str:
        """Return a value rounded to a narrow type; ``cut``: numbers that are too large become the largest."""
        if element in NARROW_INTEGERS:
            bits = NARROW_INTEGERS[element]
            low: Any = ("bit_and", self._wrapped(x, element), ("const", (1 << bits) - 1))
            sign = ("const", 1 << (bits - 1))
            made = self.elementwise(low if element[0] == "u" else ("sub", ("bit_xor", low, sign), sign), x)
        else:
            form = NARROW_FLOATS[element]
            rounded: Any = ("narrow", form.fraction_bits, form.least_exponent, 0)
            most = ("const", form.most)
            if element != "bfloat16" and (cut or form.beyond is None):
                rounded = ("clip", -form.most, form.most, rounded)
            elif element != "bfloat16":
                beyond: Any = ("const", form.beyond)
                rounded = ("where", ("greater", rounded, most), beyond, rounded)
                below = ("const", -(form.beyond or 0.0))
                rounded = ("where", ("less", rounded, ("const", -form.most)), below, rounded)
            made = self.elementwise(rounded, x)
        self.elements[made] = element
        return made

    def _wrapped(self, x: str, element: str) -> Any:
        return 0 if self.dtype(x) == carrier(element) else ("cast", carrier(element), 0)

    def expand(self, x: str, shape: Shape) -> str:
        """Return a value broadcast to a shape."""
        return x if self.shape(x) == shape else self.elementwise(0, x, shape=shape)

    def filled(self, shape: Shape, dtype: str, value: float = 0, *, folded: bool = True) -> str:
        """Return a value with all elements equal."""
        expression = ("const", value, dtype)
        return self.emit("elementwise", [], shape=shape, dtype=dtype, folded=folded, expression=expression)

    def with_axis(self, x: str, axis: int) -> str:
        """Return a value with a new axis of extent 1."""
        return self.with_axes(x, [axis])

    def without_axis(self, x: str, axis: int) -> str:
        """Return a value without an axis of extent 1."""
        return self.without_axes(x, [axis])

    def with_axes(self, x: str, axes: Sequence[int]) -> str:
        """Return a value with new axes of extent 1, which are these of the result."""
        own = iter(self.shape(x))
        rank = len(self.shape(x)) + len(axes)
        kept = [axis for axis in range(rank) if axis not in axes]
        return self._renumbered(x, tuple(1 if axis in axes else next(own) for axis in range(rank)), kept)

    def without_axes(self, x: str, axes: Sequence[int]) -> str:
        """Return a value without axes of extent 1."""
        kept = [axis for axis in range(len(self.shape(x))) if axis not in axes]
        if any(length.axis in axes for length in self.lengths.get(x, ())):
            raise LengthError("it leaves out an axis whose length is known only at run time", where=self.place())
        places = [kept.index(axis) if axis in kept else -1 for axis in range(len(self.shape(x)))]
        return self._renumbered(x, tuple(self.shape(x)[axis] for axis in kept), places)

    def _renumbered(self, x: str, shape: Shape, places: Sequence[int]) -> str:
        """Return a value of the same elements, each axis of which is another one now, or none."""
        if x not in self.lengths:
            return self.reshape(x, shape)
        made = self.with_all(x, shape)
        self.give_lengths(made, [Length(places[each.axis], each.count) for each in self.lengths[x]])
        return made

    def part(self, x: str, axis: int, start: int, count: int) -> str:
        """Return a range of a value along one axis."""
        starts, extents = [0] * len(self.shape(x)), list(self.shape(x))
        starts[axis], extents[axis] = start, count
        return self.slice(x, starts, extents)

    def concat(self, values: Sequence[str], axis: int) -> str:
        """Return values joined along an axis."""
        return values[0] if len(values) == 1 else self.emit("concat", values, axis=axis)

    def stack(self, values: Sequence[str], axis: int) -> str:
        """Return values joined along a new axis."""
        return self.concat([self.with_axis(each, axis) for each in values], axis)

    def gather(self, x: str, indices: str, axis: int = 0) -> str:
        """Return the elements of a value at indices along an axis."""
        return self.emit("gather", [x, indices], axis=axis)

    def reduce(self, mode: str, x: str, axes: Sequence[int], *, keepdims: bool = True) -> str:
        """Return a value reduced over axes."""
        return self.emit("reduce", [x], mode=mode, axes=tuple(axes), keepdims=keepdims)

    def matmul(self, x: str, y: str, bias: str | None = None, **attributes: Any) -> str:
        """Return a matrix product plus a bias; see the attributes of the kind in `network`."""
        usual = {"transpose_a": False, "transpose_b": False, "alpha": 1.0, "beta": 1.0, "activation": ()}
        return self.emit("matmul", [x, y, bias], **{**usual, **attributes})

    def conv(self, x: str, weights: str, bias: str | None = None, *, groups: int = 1, **windows: Any) -> str:
        """Return a convolution with ``strides``, ``pads`` and ``dilations``."""
        return self.emit("conv", [x, weights, bias], **windows, groups=groups, channels_last=False, activation=())

    def slice(self, x: str, starts: Sequence[int], extents: Sequence[int], steps: Sequence[int] | None = None) -> str:
        """Return a slice of a value with given starts, extents and steps."""
        strides = tuple(steps or (1,) * len(starts))
        if tuple(extents) == self.shape(x) and all(step == 1 for step in strides):
            return x
        return self.emit("slice", [x], shape=tuple(extents), starts=tuple(starts), steps=strides)

    def pad(self, x: str, pads: Sequence[int], mode: str = "constant", value: float = 0) -> str:
        """Return a value padded: the pads before all axes, then those after all axes."""
        if not any(pads):
            return x
        return self.emit("pad", [x], pads=tuple(pads), mode=mode, value=value)

    # --- completion -----------------------------------------------------------------------------------

    def finish(self, name: str, outputs: Sequence[tuple[str, str]]) -> Network:
        """Return the network with given outputs, pairs of model name and value; unneeded nodes are dropped."""
        outputs, lengths = self._with_lengths(outputs)
        guards = {f"extent {i} of {guard.key}": guard for i, (_, guard) in enumerate(self.guards)}
        outputs = [*outputs, *((asked, value) for asked, (value, _) in zip(guards, self.guards, strict=True))]
        renamed: dict[str, str] = {}
        pending: dict[str, str] = {}  # those of them that nodes still have by their old names
        for asked, value in outputs:
            if asked == value:
                continue
            fixed = value in self._inputs or value in renamed or any(value == each for each, _ in outputs)
            if asked in self.values:
                # Another, internal value has this name; rename it.
                self._rename_nodes(pending)
                internal = {asked: self._new_name()}
                self._rename_values(internal)
                self._rename_nodes(internal)
            if value in self.elements and (value in self.constants or fixed):
                self.elements[asked] = self.elements[value]
            if value in self.decodings and (value in self.constants or fixed):
                self.decodings[asked] = self.decodings[value]
            if value in self.constants:
                self.constants[asked] = self.constants[value]
                self.values[asked] = Value(asked, self.shape(value), self.dtype(value))
            elif fixed:
                self._rename_nodes(pending)
                self.begin(asked, f"Identity {asked!r}")
                source = renamed.get(value, value)
                self.end([self.emit("elementwise", [source], shape=self.shape(source), expression=0)], [asked])
            else:
                self._rename_values({value: asked})
                renamed[value] = pending[value] = asked
        self._rename_nodes(pending)
        needed = {asked for asked, _ in outputs}
        nodes: list[CanonicalNode] = []
        for node in reversed(self._nodes):
            if any(each in needed for each in node.outputs if each is not None):
                nodes.append(node)
                needed.update(each for each in node.inputs if each is not None)
        nodes.reverse()
        kept = needed | set(self._inputs) | {each for node in nodes for each in node.outputs if each is not None}
        return Network(
            name=name,
            inputs=tuple(self._inputs),
            outputs=tuple(asked for asked, _ in outputs),
            values={each: value for each, value in self.values.items() if each in kept},
            constants={each: array for each, array in self.constants.items() if each in needed},
            nodes=tuple(nodes),
            elements={each: self.elements[each] for each in kept if each in self.elements},
            decodings={asked: self.decodings[asked] for asked, _ in outputs if asked in self.decodings},
            lengths=lengths,
            guards=guards,
        )

    def _with_lengths(
        self, outputs: Sequence[tuple[str, str]]
    ) -> tuple[Sequence[tuple[str, str]], dict[str, tuple[tuple[int, str], ...]]]:
        """Return outputs and the lengths among them as further ones; and for each output its axes and lengths."""
        counts: dict[str, str] = {}
        lengths: dict[str, tuple[tuple[int, str], ...]] = {}
        for asked, value in outputs:
            for axis, count in ((each.axis, each.count) for each in self.lengths.get(value, ())):
                which = f" along axis {axis}" if asked in lengths else ""
                found = counts.setdefault(count, f"length of {asked}{which}")
                lengths[asked] = (*lengths.get(asked, ()), (axis, found))
        return [*outputs, *((asked, count) for count, asked in counts.items())], lengths

    def _rename_nodes(self, names: dict[str, str]) -> None:
        """Let all nodes have other names of their values, once."""
        if names:
            self._nodes = _renamed(self._nodes, names)
            names.clear()

    def _rename_values(self, names: Mapping[str, str]) -> None:
        for old, new in names.items():
            value = self.values.pop(old)
            self.values[new] = Value(new, value.shape, value.dtype)
            if old in self.constants:
                self.constants[new] = self.constants.pop(old)
            if old in self.elements:
                self.elements[new] = self.elements.pop(old)
            if old in self.decodings:
                self.decodings[new] = self.decodings.pop(old)
            if old in self.lengths:
                self.lengths[new] = self.lengths.pop(old)
            self._rename_extents(old, new)

    def _rename_extents(self, old: str, new: str) -> None:
        self.guards = [(new if value == old else value, guard) for value, guard in self.guards]
        self.extent_roots = {
            (new if root == old else root, place): (bound, new if count == old else count)
            for (root, place), (bound, count) in self.extent_roots.items()
        }
        self.extent_scalars = {
            (new if root == old else root, place, factor): new if made == old else made
            for (root, place, factor), made in self.extent_scalars.items()
        }
        self.extent_formulas = {
            (kind, numbers, tuple(sorted(new if each == old else each for each in names))): new if made == old else made
            for (kind, numbers, names), made in self.extent_formulas.items()
        }
        if old in self.bounds:
            self.bounds[new] = self.bounds.pop(old)
            for name, lengths in self.lengths.items():
                if any(each.count == old for each in lengths):
                    renamed = (Length(each.axis, new if each.count == old else each.count) for each in lengths)
                    self.lengths[name] = tuple(renamed)


def _renamed(nodes: Iterable[CanonicalNode], names: Mapping[str, str]) -> list[CanonicalNode]:
    """Return nodes with other names of their values."""
    return [
        CanonicalNode(
            node.name,
            node.kind,
            tuple([names.get(each, each) if each is not None else None for each in node.inputs]),
            tuple([names.get(each, each) if each is not None else None for each in node.outputs]),
            node.attributes,
            node.origin,
        )
        for node in nodes
    ]
