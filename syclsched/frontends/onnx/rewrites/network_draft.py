# SPDX-License-Identifier: Apache-2.0
"""Mutable network for passes, with producers and readers of each value kept up to date at low cost.

Passes query and change a `NetworkDraft` and report each change with `NetworkDraft.record_change`.
`NetworkDraft.finish` sorts the nodes topologically and drops unused values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from syclsched.frontends.onnx.network import CanonicalNode, Network, Value

Array = NDArray[Any]


class NetworkDraft:
    """A mutable network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.inputs = network.inputs
        self.outputs = network.outputs
        self.values = dict(network.values)
        self.constants = dict(network.constants)
        self.nodes = {node.name: node for node in network.nodes}
        self.changes: dict[str, list[str]] = {}
        self._output_names = frozenset(network.outputs)
        self._producers: dict[str, str] = {}
        self._readers: dict[str, dict[str, int]] = {}
        self._fresh = 0
        for node in network.nodes:
            self._link(node)

    # -- queries ------------------------------------------------------------------------------------------------------

    def __contains__(self, node: str) -> bool:
        """Return whether a node of this name exists."""
        return node in self.nodes

    def each(self, *kinds: str) -> Iterable[CanonicalNode]:
        """Yield the nodes of given kinds (by default all); nodes removed meanwhile are skipped."""
        for name in tuple(self.nodes):
            node = self.nodes.get(name)
            if node is not None and (not kinds or node.kind in kinds):
                yield node

    def producer(self, value: str | None) -> CanonicalNode | None:
        """Return the node that produces a value; None for an input or a constant."""
        name = None if value is None else self._producers.get(value)
        return None if name is None else self.nodes[name]

    def made_by(self, value: str | None, *kinds: str) -> CanonicalNode | None:
        """Return the producer of a value if it has one of the kinds and the value is its first output."""
        node = self.producer(value)
        return node if node is not None and node.kind in kinds and node.outputs[0] == value else None

    def readers(self, value: str) -> list[CanonicalNode]:
        """Return the nodes that read a value, without duplicates."""
        return [self.nodes[name] for name in self._readers.get(value, ())]

    def reads(self, value: str) -> int:
        """Return the number of reads of a value; being a network output counts as one read."""
        return sum(self._readers.get(value, {}).values()) + (value in self._output_names)

    def sole_reader(self, value: str) -> CanonicalNode | None:
        """Return the only reader of a value if it reads it once, else None."""
        return next(iter(self.readers(value)), None) if self.reads(value) == 1 else None

    def is_output(self, value: str) -> bool:
        """Return whether a value is a network output."""
        return value in self._output_names

    def shape(self, value: str) -> tuple[int, ...]:
        """Return a value's shape."""
        return self.values[value].shape

    def dtype(self, value: str) -> str:
        """Return a value's dtype."""
        return self.values[value].dtype

    def constant(self, value: str | None) -> Array | None:
        """Return the array of a constant value, or None."""
        return None if value is None else self.constants.get(value)

    # -- changes ------------------------------------------------------------------------------------------------------

    def record_change(self, what: str, name: str) -> None:
        """Record a change of a node for the report."""
        self.changes.setdefault(what, []).append(name)

    def fresh(self, like: str) -> str:
        """Return an unused name for a node or value."""
        stem = like.split("~", 1)[0]
        while True:
            self._fresh += 1
            name = f"{stem}~{self._fresh}"
            if name not in self.nodes and name not in self.values:
                return name

    def add_constant(self, array: Array, like: str) -> str:
        """Add a constant and return its name."""
        name = self.fresh(like)
        held = np.asarray(array, order="C").view()
        held.flags.writeable = False
        self.constants[name] = held
        self.values[name] = Value(name, held.shape, held.dtype.name)
        return name

    def add(
        self,
        kind: str,
        inputs: Sequence[str | None],
        shape: Sequence[int],
        dtype: str,
        attributes: Mapping[str, Any],
        *,
        like: CanonicalNode | str,
        output: str | None = None,
    ) -> str:
        """Add a node with one output and return the output's name."""
        (made,) = self.add_all(kind, inputs, [(shape, dtype)], attributes, like=like, outputs=[output])
        return made

    def add_all(
        self,
        kind: str,
        inputs: Sequence[str | None],
        results: Sequence[tuple[Sequence[int], str]],
        attributes: Mapping[str, Any],
        *,
        like: CanonicalNode | str,
        outputs: Sequence[str | None] = (),
    ) -> list[str]:
        """Add a node with outputs of some shapes and dtypes and return their names; those that are None are new."""
        stem, origin = (like, ()) if isinstance(like, str) else (like.name, like.origin)
        name = stem if stem not in self.nodes else self.fresh(stem)
        made: list[str] = []
        for (shape, dtype), output in zip(results, outputs or [None] * len(results), strict=True):
            made.append(output or self.fresh(name))
            if output is None:
                self.values[made[-1]] = Value(made[-1], tuple(int(n) for n in shape), dtype)
        node = CanonicalNode(name, kind, tuple(inputs), tuple(made), dict(attributes), origin)
        self.nodes[name] = node
        self._link(node)
        return made

    def change(self, node: CanonicalNode, **changes: Any) -> CanonicalNode:
        """Replace fields of a node (all but the name) and return the new node."""
        self._unlink(node)
        changed = replace(node, **changes)
        self.nodes[node.name] = changed
        self._link(changed)
        return changed

    def remove(self, node: CanonicalNode) -> None:
        """Remove a node, whose outputs must have no readers."""
        self._unlink(node)
        del self.nodes[node.name]

    def redirect(self, old: str, new: str) -> None:
        """Make all readers of one value read another of the same shape and dtype.

        If the old value is a network output, the new one takes its name, and the producer of the old value loses that
        output. If the new value is an input, a constant or another output, it is copied instead.
        """
        for reader in self.readers(old):
            self.change(reader, inputs=tuple(new if name == old else name for name in reader.inputs))
        if old not in self._output_names:
            return
        maker = self.producer(old)
        if maker is not None:
            self.change(maker, outputs=tuple(None if name == old else name for name in maker.outputs))
        source = self.producer(new)
        if source is None or new in self._output_names:
            self.add("elementwise", (new,), (), "", {"expression": 0}, like=f"{old}~copy", output=old)
            return
        self.change(source, outputs=tuple(old if name == new else name for name in source.outputs))
        for reader in self.readers(new):
            self.change(reader, inputs=tuple(old if name == new else name for name in reader.inputs))

    def can_redirect(self, old: str, new: str) -> bool:
        """Return whether `redirect` from one value to another needs no copy."""
        return old not in self._output_names or (new in self._producers and new not in self._output_names)

    def replace_node(self, node: CanonicalNode, value: str) -> None:
        """Remove a node with one output and redirect its readers to another value."""
        output = node.outputs[0]
        assert output is not None
        self.remove(node)
        self.redirect(output, value)

    def remove_unread(self, *values: str | None) -> None:
        """Remove the producers of unread values, and recursively the producers of their inputs that become unread."""
        waiting = list(values)
        while waiting:
            node = self.producer(waiting.pop())
            if node is None or any(out is not None and self.reads(out) for out in node.outputs):
                continue
            self.remove(node)
            waiting.extend(node.inputs)

    def finish(self) -> Network:
        """Return the network with sorted nodes and without unused values and constants."""
        nodes = self._ordered()
        used = set(self.inputs) | set(self.outputs)
        for node in nodes:
            used.update(name for name in node.inputs if name is not None)
            used.update(name for name in node.outputs if name is not None)
        return replace(
            self._network,
            values={name: value for name, value in self.values.items() if name in used},
            constants={name: array for name, array in self.constants.items() if name in used},
            nodes=tuple(nodes),
        )

    # -- internals ----------------------------------------------------------------------------------------------------

    def _link(self, node: CanonicalNode) -> None:
        for name in node.outputs:
            if name is not None:
                self._producers[name] = node.name
        for name in node.inputs:
            if name is not None:
                readers = self._readers.setdefault(name, {})
                readers[node.name] = readers.get(node.name, 0) + 1

    def _unlink(self, node: CanonicalNode) -> None:
        for name in node.outputs:
            if name is not None and self._producers.get(name) == node.name:
                del self._producers[name]
        for name in node.inputs:
            if name is not None:
                self._readers[name].pop(node.name, None)

    def _ordered(self) -> list[CanonicalNode]:
        """Return the nodes in topological order, otherwise in their current order."""
        done: set[str] = set()
        order: list[CanonicalNode] = []
        for start in self.nodes.values():
            if start.name in done:
                continue
            direct = self._needs(start)
            if done.issuperset([each.name for each in direct]):
                done.add(start.name)
                order.append(start)
                continue
            stack = [(start, iter(direct))]
            while stack:
                node, needs = stack[-1]
                following = next((other for other in needs if other.name not in done), None)
                if following is not None:
                    stack.append((following, iter(self._needs(following))))
                    continue
                stack.pop()
                if node.name not in done:
                    done.add(node.name)
                    order.append(node)
        return order

    def _needs(self, node: CanonicalNode) -> list[CanonicalNode]:
        return [
            self.nodes[self._producers[name]] for name in node.inputs if name is not None and name in self._producers
        ]
