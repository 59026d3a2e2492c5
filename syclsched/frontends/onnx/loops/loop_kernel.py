# SPDX-License-Identifier: Apache-2.0
"""Kernels in OpenCL C for CPUs: one work-item executes all iterations of a loop with a small body.

A CPU's launch of a kernel takes longer than a step of a small recurrent cell. So the nodes of the body follow one
another within one kernel, and its values are in private memory. Loops within the body are loops of the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from syclsched.frontends.onnx.loops import loop_nodes
from syclsched.frontends.onnx.loops.loop_body import LoopBody, ScannedAxis
from syclsched.frontends.onnx.loops.loop_nodes import ArrayPlace
from syclsched.frontends.onnx.network import CanonicalNode, Value
from syclsched.kernels.common import C_TYPES, ITEM_BYTES
from syclsched.kernels.tensor.writing.iteration_space import contiguous_strides
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter
from syclsched.kernels.tensor.writing.opencl_writer import opencl_writer
from syclsched.model.operation import Parameter, Signature

#: Most bytes of a value in private memory, which runtimes limit; larger ones are in arrays of the kernel's own.
_PRIVATE_BYTES: Final = 2 << 10
#: Most arithmetic operations of an iteration on one core: more are worth several cores.
_MOST_FLOPS: Final = 4e6
#: Most parameters of a kernel, and nodes of a body: both limit the time that compilation takes.
_MOST_PARAMETERS: Final = 64
_MOST_NODES: Final = 64
#: Arithmetic operations that take a loop seconds, roughly.
_LONG_FLOPS: Final = 1e9


def own_arrays(body: LoopBody) -> dict[tuple[int, str], tuple[str, Value]]:
    """Return parameter and value of the kernel's own arrays, by the identity of a body and the name of its value."""
    found: dict[tuple[int, str], tuple[str, Value]] = {}
    for each in body.with_inner:
        values, inputs = each.network.values, each.network.inputs
        made = [name for node in each.network.nodes if node.kind != "reshape" for name in node.outputs]
        carried = inputs[each.counted : each.counted + each.carried]
        for name in (*carried, *inputs[each.counted + each.carried :][: len(each.scanned)], *made):
            value = None if name is None else values[name]
            if value is not None and ITEM_BYTES[value.dtype] * math.prod(value.shape) > _PRIVATE_BYTES:
                found[id(each), value.name] = f"s{len(found)}", value
    return found


def why_no_kernel(body: LoopBody) -> str | None:
    """Return why no kernel executes all iterations of a loop; None if one does."""
    bodies = body.with_inner
    if any(step_flops(each) > _MOST_FLOPS for each in bodies):
        return "an iteration is worth several cores"
    nodes = sum(len(each.network.nodes) for each in bodies)
    if nodes > _MOST_NODES:
        return f"its body has {nodes} operations"
    arrays = len(own_arrays(body)) + sum(len(each.network.constants) for each in bodies)
    if body.input_count + body.output_count + arrays > _MOST_PARAMETERS:
        return "it has too many arrays"
    for each in bodies:
        network = each.network
        for node in network.nodes:
            why = None if node.kind == "loop" else loop_nodes.why_unsupported(node, network)
            if why is not None:
                return why
        for value in network.values.values():
            if value.dtype not in C_TYPES or value.dtype == "float16":
                return f"elements of {value.dtype}"
    return None


def step_flops(body: LoopBody) -> float:
    """Return the arithmetic operations of one iteration, roughly, without those of loops in it."""
    network, total = body.network, 0.0
    for node in network.nodes:
        made = sum(math.prod(network.values[name].shape) for name in node.outputs if name is not None)
        first = network.values[node.inputs[0]].shape if node.inputs and node.inputs[0] is not None else ()
        if node.kind == "matmul":
            made *= 2 * (first[-2] if node.attributes["transpose_a"] else first[-1])
        elif node.kind in ("conv", "conv_transpose"):
            made *= 2 * math.prod(network.values[node.inputs[1] or ""].shape[1:])
        elif node.kind in ("reduce", "softmax", "arg"):
            made = math.prod(first)
        total += made
    return total


def loop_source(body: LoopBody, signature: Signature, parameters: tuple[Parameter, ...]) -> Any:
    """Return the kernel of a loop's operation, whose parameters it has."""
    # Private arrays are added to the writer's dtypes, for loads and stores.
    dtypes = dict(signature.dtypes)
    w = opencl_writer(Signature(signature.shapes, dtypes, signature.scalars, signature.constants), parameters)
    constants = (ArrayPlace(f"c{i}", shape=signature.shapes[f"c{i}"]) for i in range(len(parameters)))
    given = [ArrayPlace(f"x{i}", shape=signature.shapes[f"x{i}"]) for i in range(body.input_count)]
    results = [ArrayPlace(f"y{i}", shape=signature.shapes[f"y{i}"]) for i in range(body.output_count)]
    _LoopWriter(w, dtypes, body, constants, own_arrays(body)).write(given, results)
    return replace(w.finish(), open_ended=any(map(_is_open_ended, body.with_inner)))


def _is_open_ended(body: LoopBody) -> bool:
    """Return whether values decide the number of iterations, and may decide for seconds of them."""
    most = math.inf if body.rounds is None else body.rounds
    return body.is_counted_at_run_time and most * max(1.0, step_flops(body)) > _LONG_FLOPS


class _LoopWriter:
    """Emits the code of one loop."""

    def __init__(
        self,
        w: KernelWriter,
        dtypes: dict[str, str],
        body: LoopBody,
        constants: Iterator[ArrayPlace],
        own: Mapping[tuple[int, str], tuple[str, Value]],
    ) -> None:
        self._w, self._dtypes, self._own = w, dtypes, own
        self._body, self._network = body, body.network
        self._constants = constants
        self._places = {name: next(constants) for name in body.network.constants}

    def write(self, given: Sequence[ArrayPlace], results: Sequence[ArrayPlace | None]) -> None:
        """Emit the loop, with the places of its inputs and outputs; None for an output that nothing reads."""
        w, body = self._w, self._body
        places = iter(given)
        trips = next(places) if body.has_trips else None
        condition = next(places) if body.has_condition else None
        inputs = iter(self._network.inputs)
        if body.counted:
            self._place(next(inputs))
        states = [next(inputs) for _ in range(body.carried)]
        for name in states:
            self._copy(next(places), self._place(name))
        scanned = [(next(inputs), next(places), each) for each in body.scanned]
        self._places |= dict(zip(inputs, places, strict=True))
        done = w.variable(None, "0")
        limit = "0x7fffffffffffffffL" if body.rounds is None else str(body.rounds)
        if trips is not None:
            given_trips = w.load(trips.array, trips.first)
            limit = w.index(w.select(f"({given_trips} < {limit})", given_trips, limit))
        goes_on = w.variable("bool", "true" if condition is None else w.load(condition.array, condition.first))
        with w.while_block(w.all_of(f"{done} < {limit}", goes_on)):
            self._iteration(done, goes_on, scanned, results[body.carried :])
            w.assign(done, None, f"{done} + 1")
        for name, result in zip(states, results, strict=False):
            if result is not None:
                self._copy(self._places[name], result)
        if body.is_counted_at_run_time:
            if results[-1] is not None:
                w.store(results[-1].array, results[-1].first, done)
            for result, each in zip(results[body.carried :], body.made, strict=False):
                if result is not None:
                    self._clear_from(done, result, each.axis)

    def _iteration(
        self,
        done: str,
        goes_on: str,
        scanned: Sequence[tuple[str, ArrayPlace, ScannedAxis]],
        results: Sequence[ArrayPlace | None],
    ) -> None:
        w, body, network = self._w, self._body, self._network
        if body.counted:
            w.store(self._places[network.inputs[0]].array, "0", done)
        for name, outer, each in scanned:
            found = self._slice(outer, each, done)
            if each.axis == 0:
                self._places[name] = found
            else:
                self._copy(found, self._place(name), sliced=contiguous_strides(outer.shape), axis=each.axis)
        for node in network.nodes:
            self._node(node)
        outputs = list(network.outputs)
        if body.conditional:
            at = self._places[outputs.pop(0)]
            w.assign(goes_on, "bool", w.load(at.array, at.first))
        for name, result, each in zip(outputs[body.carried :], results, body.made, strict=False):
            if result is None:
                continue
            target = self._slice(result, each, done)
            self._copy(self._places[name], target, put=contiguous_strides(result.shape), axis=each.axis)
        self._carry(outputs[: body.carried])

    def _node(self, node: CanonicalNode) -> None:
        w, values = self._w, self._network.values
        if node.kind == "reshape":
            source, target = node.inputs[0] or "", node.outputs[0] or ""
            self._places[target] = self._places[source].reshaped(values[target].shape)
            return
        made = [None if name is None else self._place(name) for name in node.outputs]
        with w.block("{", "}"):
            if node.kind == "loop":
                inner = _LoopWriter(w, self._dtypes, node.attributes["body"], self._constants, self._own)
                inner.write([self._places[name] for name in node.inputs if name is not None], made)
            else:
                loop_nodes.write_node(w, node, self._network, self._places)

    def _carry(self, outputs: Sequence[str]) -> None:
        """Write the next carried values over the last ones; those that are others' last ones are copied first."""
        first = self._body.counted
        states = [self._places[name] for name in self._network.inputs[first : first + self._body.carried]]
        sources = [self._places[name] for name in outputs]
        arrays = {state.array for state in states}
        for number, (name, state) in enumerate(zip(outputs, states, strict=True)):
            source = sources[number]
            if source.array in arrays and source.array != state.array:
                sources[number] = self._declared(self._network.values[name].dtype, source.shape)
                self._copy(source, sources[number])
        for source, state in zip(sources, states, strict=True):
            if source.array != state.array:
                self._copy(source, state)

    def _clear_from(self, done: str, result: ArrayPlace, axis: int) -> None:
        """Write zeros into the slices of a scan output that no iteration has made."""
        w, shape = self._w, result.shape
        zero, strides = w.constant(0, self._dtypes[result.array]), contiguous_strides(shape)
        with w.loop(done, str(shape[axis])) as number:
            loop_nodes.write_elements(
                w,
                _without(shape, axis),
                [_without(strides, axis)],
                [w.index(f"{result.first} + {number} * {strides[axis]}")],
                lambda at: w.store(result.array, at[0], zero),
            )

    def _place(self, name: str) -> ArrayPlace:
        """Return the place of a value: in a private array that is declared, or in an array of the kernel's own."""
        value = self._network.values[name]
        own = self._own.get((id(self._body), name))
        self._places[name] = (
            self._declared(value.dtype, value.shape) if own is None else ArrayPlace(own[0], "0", value.shape)
        )
        return self._places[name]

    def _declared(self, dtype: str, shape: tuple[int, ...]) -> ArrayPlace:
        array = self._w.private(dtype, max(1, math.prod(shape)))
        self._dtypes[array] = dtype
        return ArrayPlace(array, shape=shape)

    def _slice(self, outer: ArrayPlace, scanned: ScannedAxis, done: str) -> ArrayPlace:
        """Return the place of an iteration's slice of an outer array."""
        shape, axis = outer.shape, scanned.axis
        number = f"({shape[axis] - 1} - {done})" if scanned.backwards else done
        first = self._w.index(f"{outer.first} + {number} * {math.prod(shape[axis + 1 :])}")
        return ArrayPlace(outer.array, first, _without(shape, axis))

    def _copy(
        self,
        source: ArrayPlace,
        target: ArrayPlace,
        *,
        sliced: tuple[int, ...] | None = None,
        put: tuple[int, ...] | None = None,
        axis: int = 0,
    ) -> None:
        """Emit a copy of a value; one side may be a slice along an axis of an array with these strides."""
        w, shape = self._w, source.shape
        own = contiguous_strides(shape)
        strides = [own if each is None else _without(each, axis) for each in (sliced, put)]
        loop_nodes.write_elements(
            w,
            shape,
            strides,
            [source.first, target.first],
            lambda at: w.store(target.array, at[1], w.load(source.array, at[0])),
        )


def _without(values: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*values[:axis], *values[axis + 1 :])
