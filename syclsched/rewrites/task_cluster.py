# SPDX-License-Identifier: Apache-2.0
"""Clusters of tasks to merge, grown along unique arcs and among twins.

Each of three rules keeps the graph of clusters acyclic, however many clusters it joins at once:

- *in-trees*: a cluster joins its only successor. All arcs out of a cluster then leave from its last member, so a cycle
  of clusters would be a cycle of their last members, in the original graph;
- *out-trees*: the same with all arcs reversed;
- *twins*: clusters with equal predecessors and equal successors join. A cycle of twin classes would be a cycle of
  members, as an arc between members of two classes exists between all of them.

A chain is an in-tree; so is the reduction of many tiny values into one. The iterations of an unrolled loop are twins.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from syclsched.rewrites.granularity import Granularity

#: Most steps of a merged task: enough to amortise the engine's overhead, few enough that a run can still be cancelled.
MAX_STEPS = 64

#: Most rounds of all rules: each rule can create work for the others.
_ROUNDS = 8


@dataclass(slots=True)
class TaskCluster:
    """Tasks that are to become one task."""

    members: list[int]  # tasks, in execution order
    seconds: tuple[float, ...]  # on each device; infinity if some member cannot run there
    arrays: dict[int, float]  # size in bytes of each array it touches
    #: For each graph input among them: the duration of its copy to the slowest space.
    inputs_s: dict[int, float] = field(default_factory=dict)
    joinable: bool = True  # false if it must not be merged
    predecessors: set[int] = field(default_factory=set)
    successors: set[int] = field(default_factory=set)

    @property
    def best_s(self) -> float:
        """Seconds on the fastest device."""
        return min(self.seconds)

    def runs_where(self, other: TaskCluster) -> bool:
        """Return whether two clusters can run on the same devices."""
        return all(math.isinf(a) == math.isinf(b) for a, b in zip(self.seconds, other.seconds, strict=True))

    def with_seconds(self, other: TaskCluster) -> tuple[float, ...]:
        """Return the seconds of both clusters together, on each device."""
        return tuple([a + b for a, b in zip(self.seconds, other.seconds, strict=True)])


@dataclass(slots=True)
class Clusters:
    """The clusters of a graph, at first one per task; numbered as the tasks, in topological order."""

    clusters: dict[int, TaskCluster]  # by the number of one of its members
    granularity: Granularity  # of the platform
    room_bytes: float  # most bytes of the arrays of one cluster

    def grow(self) -> None:
        """Join clusters until nothing changes."""
        for _ in range(_ROUNDS):
            before = len(self.clusters)
            self._contract(forward=True)
            self._contract(forward=False)
            self._join_twins()
            if len(self.clusters) == before:
                return

    # --- inside -----------------------------------------------------------------------------------

    def _order(self) -> list[int]:
        """Return the clusters in a topological order."""
        waiting = {name: len(c.predecessors) for name, c in self.clusters.items()}
        ready = [name for name, count in waiting.items() if count == 0]
        order = []
        while ready:
            name = ready.pop()
            order.append(name)
            for after in self.clusters[name].successors:
                waiting[after] -= 1
                if waiting[after] == 0:
                    ready.append(after)
        return order

    def _contract(self, *, forward: bool) -> None:
        """Join clusters with their only successor (or, if not ``forward``, their only predecessor)."""
        order = self._order()
        for name in order if forward else reversed(order):
            cluster = self.clusters[name]
            neighbours = cluster.successors if forward else cluster.predecessors
            if len(neighbours) != 1:
                continue
            (other_name,) = neighbours
            other = self.clusters[other_name]
            first, second = (cluster, other) if forward else (other, cluster)
            alone = len(first.successors) == 1 and len(second.predecessors) == 1
            if self._fits(first, second) and self._gains(first, second, cluster, alone):
                self._join(name, other_name, first.members + second.members)

    def _fits(self, first: TaskCluster, second: TaskCluster) -> bool:
        """Return whether two clusters may become one."""
        return (
            first.joinable
            and second.joinable
            and len(first.members) + len(second.members) <= MAX_STEPS
            and first.runs_where(second)
            and sum((first.arrays | second.arrays).values()) <= self.room_bytes
        )

    def _gains(self, first: TaskCluster, second: TaskCluster, joining: TaskCluster, alone: bool) -> bool:
        """Return whether running two clusters as one task saves more than it costs."""
        limits = self.granularity
        if min(first.best_s, second.best_s) >= limits.minimum_s:
            return False
        # The first would have to wait for inputs that only the second needs.
        if any(s > limits.saved_s for array, s in second.inputs_s.items() if array not in first.arrays):
            return False
        # If their fastest devices differ, the saving must make up for using one device.
        together = min(first.with_seconds(second))
        if together > first.best_s + second.best_s + limits.saved_s:
            return False
        # A cluster with concurrent siblings would run in sequence with them, instead of on another lane.
        return alone or limits.lanes == 1 or joining.best_s <= limits.saved_s

    def _join(self, name: int, into: int, members: list[int]) -> None:
        absorbed, kept = self.clusters.pop(name), self.clusters[into]
        kept.members, kept.seconds = members, kept.with_seconds(absorbed)
        kept.arrays, kept.inputs_s = kept.arrays | absorbed.arrays, kept.inputs_s | absorbed.inputs_s
        for before in absorbed.predecessors:
            successors = self.clusters[before].successors
            successors.discard(name)
            if before != into:
                successors.add(into)
                kept.predecessors.add(before)
        for after in absorbed.successors:
            predecessors = self.clusters[after].predecessors
            predecessors.discard(name)
            if after != into:
                predecessors.add(into)
                kept.successors.add(after)

    def _join_twins(self) -> None:
        classes: dict[object, list[int]] = {}
        for name, cluster in self.clusters.items():
            # Two clusters of more than half the minimum would make one longer than needed.
            tiny = cluster.best_s < self.granularity.minimum_s / 2
            if cluster.joinable and tiny:
                where = tuple([math.isinf(s) for s in cluster.seconds])
                key = (frozenset(cluster.predecessors), frozenset(cluster.successors), where)
                classes.setdefault(key, []).append(name)
        for twins in classes.values():
            if len(twins) <= self.granularity.lanes:
                continue
            for batch in self._batches(sorted(twins)):
                for name in batch[1:]:
                    first, second = self.clusters[batch[0]], self.clusters[name]
                    if self._fits(first, second):
                        self._join(name, batch[0], first.members + second.members)

    def _batches(self, twins: Sequence[int]) -> Iterable[list[int]]:
        """Return twins in batches of similar duration: equally many per lane, each of the minimum length on average."""
        lanes = self.granularity.lanes
        seconds = [self.clusters[name].best_s for name in twins]
        count = lanes * max(1, math.floor(sum(seconds) / (self.granularity.minimum_s * lanes)))
        if len(twins) <= count:
            return ()
        # Each goes to the batch whose share of the total time contains its middle.
        middles = [end - each / 2 for end, each in zip(accumulate(seconds), seconds, strict=True)]
        total = sum(seconds)
        batches: dict[int, list[int]] = {}
        for position, (name, middle) in enumerate(zip(twins, middles, strict=True)):
            share = middle / total if total > 0 else position / len(twins)
            batches.setdefault(min(count - 1, int(share * count)), []).append(name)
        return batches.values()
