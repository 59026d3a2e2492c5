# SPDX-License-Identifier: Apache-2.0
"""Execution of a loop's body by NumPy: arrays and calls are made once and repeated in every iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.frontends.onnx.loops.loop_body import BodyProgram, LoopBody, ScannedAxis
from syclsched.frontends.onnx.model_file.dtypes import dtype_name
from syclsched.frontends.onnx.network import CanonicalNode, Network, Value
from syclsched.frontends.onnx.operation_arguments import OperationOf
from syclsched.frontends.onnx.shapes import unused_output
from syclsched.interrupts import HOST_CALL
from syclsched.model.operation import Signature

Array = np.ndarray[Any, Any]


def node_calls(
    node: CanonicalNode, values: Mapping[str, Value], arrays: dict[str, Array], operation_of: OperationOf
) -> list[Callable[[], object]]:
    """Return calls that evaluate a node, as often as wanted; add arrays for its outputs to those of its inputs."""
    if node.kind == "reshape":
        source, target = node.inputs[0], node.outputs[0]
        assert source is not None and target is not None
        arrays[target] = arrays[source].reshape(values[target].shape)
        return []
    call = operation_of(node, values)
    arguments = dict(call.constants)
    for parameter, read in call.reads.items():
        arguments[parameter] = arrays[read].reshape(call.reshaped.get(parameter, arrays[read].shape))
    calls: list[Callable[[], object]] = []
    for position, (parameter, name) in enumerate(call.writes.items()):
        if name is not None:
            arrays[name] = np.empty(values[name].shape, values[name].dtype)
            if parameter in call.updated:
                calls.append(partial(np.copyto, arrays[name], arrays[call.updated[parameter]]))
            arguments[parameter] = arrays[name].reshape(call.reshaped.get(parameter, values[name].shape))
        else:
            arguments[parameter] = np.empty(*unused_output(node, values, position))
    arguments |= {parameter: np.empty(value.shape, value.dtype) for parameter, value in call.scratch.items()}
    signature = Signature(
        {parameter: array.shape for parameter, array in arguments.items()},
        {parameter: dtype_name(array.dtype) for parameter, array in arguments.items()},
        call.scalars,
    )
    wrong = call.operation.check(signature) if call.operation.check is not None else None
    if wrong is not None:
        raise ArgumentError(wrong, where=f"node {node.name!r}")
    host = next(each for each in call.operation.implementations if each.kind == "host")
    return [*calls, partial(host.load(signature), **arguments, **call.scalars)]


class HostProgram:
    """The nodes of a network as host calls on arrays that are allocated once."""

    def __init__(self, network: Network, operation_of: OperationOf) -> None:
        self._arrays: dict[str, Array] = dict(network.constants)
        for name in network.inputs:
            self._arrays[name] = np.empty(network.values[name].shape, network.values[name].dtype)
        self._calls: list[Callable[[], object]] = []
        for node in network.nodes:
            self._calls += node_calls(node, network.values, self._arrays, operation_of)
        self.inputs = [self._arrays[name] for name in network.inputs]
        self.outputs = [self._arrays[name] for name in network.outputs]

    def run(self) -> None:
        """Compute the outputs from the inputs, in place."""
        for call in self._calls:
            call()


class LoopOnHost:
    """All iterations of a loop, each by the program that was planned for its body, else by NumPy."""

    def __init__(self, body: LoopBody, operation_of: OperationOf) -> None:
        self._body, self._operation_of = body, operation_of
        self._program: HostProgram | None = None

    def __call__(self, **arrays: Array) -> None:
        """Execute the loop on the arguments of its operation."""
        with self._body.planned.lock:
            planned = self._body.planned.program
            if planned is None and self._program is None:
                self._program = HostProgram(self._body.network, self._operation_of)
            program = planned or self._program
            assert program is not None
            self._run(program, arrays)

    def _run(self, program: BodyProgram, arrays: dict[str, Array]) -> None:
        body = self._body
        given = iter([arrays[f"x{i}"] for i in range(body.input_count)])
        results = [arrays[f"y{i}"] for i in range(body.output_count)]
        trips = int(next(given).reshape(-1)[0]) if body.has_trips else body.rounds
        if body.rounds is not None and trips is not None:
            trips = min(trips, body.rounds)
        goes_on = bool(next(given).reshape(-1)[0]) if body.has_condition else True
        inputs, outputs = iter(program.inputs), iter(program.outputs)
        counter = next(inputs) if body.counted else None
        condition = next(outputs) if body.conditional else None
        states = _taken(inputs, body.carried)
        following = _taken(outputs, body.carried)
        for state in states:
            np.copyto(state, next(given))
        reads = [_slices(next(given), each, next(inputs)) for each in body.scanned]
        writes = [
            _slices(array, each, value)
            for array, each, value in zip(results[body.carried :], body.made, outputs, strict=False)
        ]
        for outer, inner in zip(given, inputs, strict=True):
            np.copyto(inner, outer)
        # A carried value that is another's input unchanged would be overwritten before it is read.
        held = [each.copy() if any(map(partial(np.may_share_memory, each), states)) else None for each in following]
        done = 0
        with np.errstate(all="ignore"):
            while goes_on and (trips is None or done < trips):
                HOST_CALL.check_cancelled()
                if counter is not None:
                    counter[...] = done
                for slice_of, inner in reads:
                    np.copyto(inner, slice_of(done))
                program.run()
                for slice_of, inner in writes:
                    np.copyto(slice_of(done), inner)
                for copy, value in zip(held, following, strict=True):
                    if copy is not None:
                        np.copyto(copy, value)
                for state, copy, value in zip(states, held, following, strict=True):
                    np.copyto(state, value if copy is None else copy)
                goes_on = condition is None or bool(condition.reshape(-1)[0])
                done += 1
        for target, state in zip(results, states, strict=False):
            np.copyto(target, state)
        if body.is_counted_at_run_time:
            results[-1][...] = done
            for array, each in zip(results[body.carried :], body.made, strict=False):
                np.moveaxis(array, each.axis, 0)[done:] = 0


def _taken(values: Iterator[Array], count: int) -> Sequence[Array]:
    return [next(values) for _ in range(count)]


def _slices(outer: Array, scanned: ScannedAxis, inner: Array) -> tuple[Callable[[int], Array], Array]:
    """Return the function from iteration to slice of an outer array, and the body's array for it."""
    lines = np.moveaxis(outer, scanned.axis, 0)
    return partial(_line, lines[::-1] if scanned.backwards else lines), inner


def _line(lines: Array, number: int) -> Array:
    found: Array = lines[number, ...]
    return found
