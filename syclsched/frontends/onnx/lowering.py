# SPDX-License-Identifier: Apache-2.0
"""Lowering of networks to task graphs: one task per canonical node; reshapes become views."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from syclsched.errors import HostOperatorWarning, ModelError, SyclschedError
from syclsched.frontends.onnx.model_file.shared_constants import shared_constant
from syclsched.frontends.onnx.network import CanonicalNode, Network, Value, numbered_name
from syclsched.frontends.onnx.operations import operation_call
from syclsched.frontends.onnx.reference import host_operators
from syclsched.frontends.onnx.shapes import unused_output
from syclsched.model.constant import Constant
from syclsched.model.graph import TaskGraph
from syclsched.model.graph_parts.builtin_operations import copy_operation
from syclsched.model.graph_parts.naming import MAX_NAME_LENGTH
from syclsched.model.operation import Shape
from syclsched.model.task import LogicalArray, ReshapedArray

#: Characters not allowed in names of arrays and tasks: control characters, and brackets, which denote rows.
_INVALID_CHARACTERS: Final = re.compile(r"[\x00-\x1f\x7f\[\]]")
#: Longest name made here, so that derived names stay within the limit.
_LONGEST: Final = MAX_NAME_LENGTH // 2


@dataclass(frozen=True, slots=True)
class LoweredNetwork:
    """A task graph lowered from a network."""

    graph: TaskGraph  # tasks are named after the model's nodes, arrays after its values
    inputs: Mapping[str, str]  # input name in the model -> array name
    outputs: Mapping[str, str]  # output name in the model -> array name
    #: Task name -> the model's operators that the task computes.
    origins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: The model's operators that run on the host with onnx's reference implementation, for lack of another one.
    on_host: tuple[str, ...] = ()
    #: Input name -> name of the array whose memory also takes the value of the next call.
    carried: Mapping[str, str] = field(default_factory=dict)


def lower(network: Network, carried: Mapping[str, str] | None = None, growing: Collection[str] = ()) -> LoweredNetwork:
    """Lower a network to a task graph.

    ``carried`` tells by output which input of the next call it is: it takes that input's memory, if its shape is equal
    and known before the run, or if the input is one of those that are ``growing``, of which a part counts.
    """
    return _Lowering(network, carried or {}, growing).lowered()


class _Lowering:
    def __init__(self, network: Network, carried: Mapping[str, str], growing: Collection[str]) -> None:
        self._network = network
        values = network.values
        #: Output -> the input whose memory it takes.
        self._carried = {
            output: name
            for output, name in carried.items()
            if name in network.inputs
            and (output not in network.lengths or name in growing)
            and (values[output].shape, values[output].dtype) == (values[name].shape, values[name].dtype)
        }
        lengths = ({count for _, count in found} for found in network.lengths.values())
        needed = {count for name, found in network.lengths.items() if name not in self._carried for _, count in found}
        left_out = {*self._carried, *set().union(*lengths) - needed}
        self._outputs = tuple(name for name in network.outputs if name not in left_out)
        self._graph = TaskGraph(_safe(network.name) or "model")
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()
        self._arrays: dict[str, LogicalArray] = {}
        self._views: dict[str, LogicalArray | ReshapedArray] = {}
        self._tasks: set[str] = set()
        self._reshaped_outputs = _reshaped_outputs(network, self._outputs)
        self._origins: dict[str, tuple[str, ...]] = {}
        #: Number of reads of each value; being an output counts.
        self._reads = Counter(name for node in network.nodes for name in node.inputs)
        self._reads.update(network.outputs)
        self._made_by_tasks = {name for node in network.nodes if node.kind != "reshape" for name in node.outputs}

    def lowered(self) -> LoweredNetwork:
        network = self._network
        on_host = host_operators(network)
        if on_host:
            shown = ", ".join(on_host[:5]) + (f" and {len(on_host) - 5} more" if len(on_host) > 5 else "")
            warnings.warn(
                f"no device implements {shown}: the host runs onnx's reference implementation, which is slow",
                HostOperatorWarning,
                stacklevel=3,
            )
        for name in network.inputs:
            donated = name in self._carried.values()
            self._declare(network.values[name], temporary=False, donated=donated)
        for node in _updates_after_reads(network):
            if node.kind == "reshape":
                self._reshape(node)
            else:
                self._task(node)
        for name in dict.fromkeys(self._outputs):
            if name not in self._arrays:
                self._copy(name)
        for output in self._carried:
            self._copy_from_overwritten(output)
        for output, name in self._carried.items():
            self._carry(output, self._arrays[name])
        return LoweredNetwork(
            self._graph,
            {name: self._names[name] for name in network.inputs},
            {name: self._names[name] for name in self._outputs},
            self._origins,
            on_host,
            {name: self._names[name] for name in self._carried.values()},
        )

    def _copy_from_overwritten(self, output: str) -> None:
        """Copy a carried output that is the value of another carried input, before that input's next value comes."""
        held, own = _home(self._views.get(output)), self._arrays[self._carried[output]]
        if any(held is self._arrays[name] is not own for name in self._carried.values()):
            array = self._graph.array(
                numbered_name(_safe(output) or "value", self._taken), own.shape, own.dtype, temporary=True
            )
            source = self._views[output].reshaped(own.shape)
            name = self._task_name(f"copy {output}")
            self._graph.kernel(copy_operation(), name=name, source=source, destination=array.write())
            self._views[output] = array

    def _carry(self, output: str, home: LogicalArray) -> None:
        """Put the value of an output where the next call reads it, after all that read the value before."""
        found = self._views.get(output)
        if _home(found) is home:
            return
        given: Any = self._constant(output) if found is None else found.reshaped(home.shape)
        name = self._task_name(f"carry {output}")
        self._graph.kernel(copy_operation(), name=name, source=given, destination=home.write())

    def _declare(self, value: Value, *, temporary: bool, donated: bool = False) -> LogicalArray:
        array = self._new_array(value, temporary=temporary, donated=donated)
        self._names[value.name] = array.name
        self._arrays[value.name] = self._views[value.name] = array
        return array

    def _new_array(self, value: Value, *, temporary: bool = True, donated: bool = False) -> LogicalArray:
        """Return an array as a value, of whose name the network may have another value."""
        name = numbered_name(_safe(value.name) or "value", self._taken)
        return self._graph.array(name, value.shape, value.dtype, temporary=temporary, donated=donated)

    def _declare_made(self, value: Value) -> LogicalArray | ReshapedArray:
        """Declare the array of a task's result; a value that only differs from an output in shape uses its array."""
        home = self._reshaped_outputs.get(value.name)
        if home is None:
            return self._declare(value, temporary=value.name not in self._outputs)
        view = self._declare(self._network.values[home], temporary=False).reshaped(value.shape)
        self._views[value.name] = view
        return view

    def _read(self, name: str, shape: Shape | None = None) -> Any:
        """Return the task argument for a value, maybe under another shape: an array, a reshaped view, or a constant."""
        found = self._views.get(name)
        if found is None:
            made = self._constant(name)
            return made if shape is None or shape == made.shape else made.reshaped(shape, made.name)
        if shape is not None and shape != found.shape:
            return found.reshaped(shape)
        return found.read() if isinstance(found, LogicalArray) else found

    def _constant(self, name: str) -> Constant:
        # One object per piece of memory: a weight with two names, or used by several graphs, is uploaded once.
        return shared_constant(self._network.constants[name], _safe(name))

    def _reshape(self, node: CanonicalNode) -> None:
        source, target = node.inputs[0], node.outputs[0]
        if source is None or target is None or target in self._arrays:
            return
        if target in self._outputs:
            self._copy(target, source)
        elif source in self._views:
            self._views[target] = self._views[source].reshaped(self._network.values[target].shape)
        else:
            self._view_of_constant(source, target)

    def _view_of_constant(self, source: str, target: str) -> None:
        shape = self._network.values[target].shape
        made = self._constant(source).reshaped(shape, _safe(target))
        array = self._declare(self._network.values[target], temporary=True)
        self._graph.kernel(
            copy_operation(), name=self._task_name(f"copy {target}"), source=made, destination=array.write()
        )

    def _copy(self, target: str, source: str | None = None) -> None:
        """Copy a constant or a reshaped value into an output's own array."""
        value = self._network.values[target]
        array = self._declare(value, temporary=False)
        given: Any
        if source is not None and source in self._views:
            given = self._views[source].reshaped(value.shape)
        else:
            held = self._constant(source or target)
            given = held if held.shape == value.shape else held.reshaped(value.shape, held.name)
        name = self._task_name(f"copy to {target}")
        self._graph.kernel(copy_operation(), name=name, source=given, destination=array.write())

    def _task(self, node: CanonicalNode) -> None:
        origin = ", ".join(node.origin) or node.name
        try:
            self._made(node)
        except SyclschedError as error:
            raise ModelError(error.what, where=f"node {origin}", hint=error.hint) from error
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            what = f"no operation does it: {type(error).__name__}: {error}"
            raise ModelError(what, where=f"node {origin}") from error

    def _made(self, node: CanonicalNode) -> None:
        network = self._network
        call = operation_call(node, network.values)
        arguments: dict[str, Any] = {
            parameter: self._read(name, call.reshaped.get(parameter)) for parameter, name in call.reads.items()
        }
        for parameter, array in call.constants.items():
            arguments[parameter] = shared_constant(array, _safe(f"{node.name} {parameter}"))
        for position, (parameter, name) in enumerate(call.writes.items()):
            if node.kind == "operation" and parameter in call.updated:
                value = self._unused(node, parameter, position) if name is None else network.values[name]
                arguments[parameter] = self._updated_array(value, call.updated[parameter])
            elif name is not None and parameter in call.updated:
                # The result overwrites the value it updates.
                if node.kind != "update":  # which comes after all that read the value before
                    self._check_overwritten(node, call.updated[parameter])
                self._views[name] = view = self._views[call.updated[parameter]].reshaped(network.values[name].shape)
                shape = call.reshaped.get(parameter, view.shape)
                arguments[parameter] = (view if shape == view.shape else view.reshaped(shape)).update()
            elif name is not None:
                made = self._declare_made(network.values[name])
                shape = call.reshaped.get(parameter, made.shape)
                arguments[parameter] = (made if shape == made.shape else made.reshaped(shape)).write()
            else:
                arguments[parameter] = self._new_array(self._unused(node, parameter, position)).write()
        for parameter, value in call.scratch.items():
            arguments[parameter] = self._new_array(value).write()
        arguments |= call.scalars
        task = self._task_name(node.name)
        self._graph.kernel(call.operation, name=task, **arguments)
        self._origins[task] = node.origin or (node.name,)

    def _unused(self, node: CanonicalNode, parameter: str, position: int) -> Value:
        return Value(f"{node.name} {parameter}", *unused_output(node, self._network.values, position))

    def _updated_array(self, value: Value, old: str) -> LogicalArray | ReshapedArray:
        """Return the array that a task makes of an old value: a copy, or the array itself if it has no other reader.

        The operation says whether it updates the array or accumulates in it.
        """
        view = self._views.get(old)
        is_output = value.name in self._outputs or value.name in self._reshaped_outputs
        if isinstance(view, LogicalArray) and self._reads[old] == 1 and old in self._made_by_tasks and not is_output:
            self._views[value.name] = view
            return view
        made = self._declare_made(value) if value.name in self._network.values else self._new_array(value)
        source = self._constant(old) if view is None else view
        source = source if source.shape == value.shape else source.reshaped(value.shape)
        name = self._task_name(f"copy {old}")
        self._graph.kernel(copy_operation(), name=name, source=source, destination=made.write())
        return made

    def _check_overwritten(self, node: CanonicalNode, value: str) -> None:
        """Refuse to overwrite an input that is not carried into its own next value, or that others read."""
        home = _home(self._views[value])
        name = next((each for each in self._network.inputs if self._arrays[each] is home), None)
        if name is None:
            return
        producer = self._network.producer()
        while (made_by := producer.get(value)) is not None and made_by.kind == "reshape" and made_by.inputs[0]:
            value = made_by.inputs[0]
        views, readers = {value}, []
        for each in self._network.nodes:
            if views.isdisjoint(filter(None, each.inputs)):
                continue
            if each.kind == "reshape":
                views.update(filter(None, each.outputs))
            elif each is not node:
                readers.append(", ".join(each.origin) or each.name)
        readers += [f"output {output!r}" for output in self._network.outputs if output in views]
        if readers or name not in self._carried.values():
            why = f"{readers[0]} reads, too" if readers else "no output is carried to"
            raise ModelError(
                f"it updates {name!r} in place, which {why}",
                where=f"node {', '.join(node.origin) or node.name}",
                hint=f"Leave {name!r} out of carried=; the caller then passes it to each call",
            )

    def _task_name(self, name: str) -> str:
        return numbered_name(_safe(name) or "task", self._tasks)


def _updates_after_reads(network: Network) -> Sequence[CanonicalNode]:
    """Return the nodes in an order in which each value is updated in place after the other nodes have read it."""
    last: dict[str, int] = {}  # value, or the value it is a reshape of -> position of the last node that reads it
    source: dict[str, str] = {}
    for position, node in enumerate(network.nodes):
        for name in filter(None, node.inputs):
            last[source.get(name, name)] = position
        if node.kind == "reshape" and node.inputs[0] is not None and node.outputs[0] is not None:
            source[node.outputs[0]] = source.get(node.inputs[0], node.inputs[0])
    updates = [node for node in network.nodes if node.kind == "update"]
    if not updates:
        return network.nodes
    after: dict[int, list[CanonicalNode]] = {}
    for node in updates:
        updated = filter(None, node.inputs[: len(node.outputs)])
        after.setdefault(max(last[source.get(name, name)] for name in updated), []).append(node)
    found: list[CanonicalNode] = []
    for position, node in enumerate(network.nodes):
        if node.kind != "update":
            found.append(node)
        found += after.get(position, ())
    return found


def _home(view: LogicalArray | ReshapedArray | None) -> LogicalArray | None:
    return view.array if isinstance(view, ReshapedArray) else view


def _reshaped_outputs(network: Network, outputs: Sequence[str]) -> dict[str, str]:
    """Map values to the outputs that are reshapes of them: a task can write such a value into the output's array."""
    producer = network.producer()
    found: dict[str, str] = {}
    for output in outputs:
        value = output
        while (node := producer.get(value)) is not None and node.kind == "reshape" and node.inputs[0] is not None:
            value = node.inputs[0]
        if value != output and node is not None and value not in found and value not in outputs:
            found[value] = output
    return found


def _safe(name: str) -> str:
    return _INVALID_CHARACTERS.sub("_", name)[:_LONGEST]
