# SPDX-License-Identifier: Apache-2.0
"""Which tasks of a graph to merge, as numbers: clusters that grow along unique arcs and among twins.

Three rules, each of which keeps the graph of clusters free of circles however many clusters it joins at once:

- *in-trees*: a cluster joins the only one that follows it. All arcs out of a cluster then leave from its last member,
  so a circle of clusters would be a circle of their last members, and those are in the original graph;
- *out-trees*: the same with all arcs turned round;
- *twins*: clusters with the same predecessors and the same successors. A circle of classes of twins would be one of
  members, because an arc between members of two classes is there between all of them.

A chain is an in-tree; so is the reduction of many tiny values into one. Twins are what a tiny loop body unrolls to.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from syclsched.rewrites.granularity import Granularity

#: Steps of a merged task at most: by then the engine's work is spread thinly enough, and a run can still be cancelled.
MAX_STEPS = 64

#: The rules are tried over and over, for each makes work for the others; but not for ever.
_ROUNDS = 8


@dataclass(slots=True)
class Cluster:
    """Some tasks that are to become one."""

    members: list[int]  # tasks, in the order in which they are done
    seconds: tuple[float, ...]  # on each device; infinity where not all of them can run
    arrays: dict[int, float]  # the arrays it touches, with their bytes
    #: The graph's inputs among them, and how long each takes to the device furthest away.
    inputs_s: dict[int, float] = field(default_factory=dict)
    joinable: bool = True  # false for what must stay alone
    predecessors: set[int] = field(default_factory=set)
    successors: set[int] = field(default_factory=set)

    @property
    def best_s(self) -> float:
        """On the device where it is fastest."""
        return min(self.seconds)

    def runs_where(self, other: Cluster) -> bool:
        """Return whether two clusters can run on the same devices."""
        return all(math.isinf(a) == math.isinf(b) for a, b in zip(self.seconds, other.seconds, strict=True))

    def with_seconds(self, other: Cluster) -> tuple[float, ...]:
        """Return the seconds of both together, on each device."""
        return tuple([a + b for a, b in zip(self.seconds, other.seconds, strict=True)])


@dataclass(slots=True)
class Clusters:
    """The clusters of a graph, to begin with one for each task; numbered as the tasks, in topological order."""

    clusters: dict[int, Cluster]  # by the number of one of its members
    granularity: Granularity  # the platform's
    room_bytes: float  # what the arrays of one cluster may take

    def grow(self) -> None:
        """Join what should be joined, until nothing changes."""
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
        """Join clusters with the only one that follows them (or, backward, that they follow)."""
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

    def _fits(self, first: Cluster, second: Cluster) -> bool:
        """Return whether two clusters can become one at all."""
        return (
            first.joinable
            and second.joinable
            and len(first.members) + len(second.members) <= MAX_STEPS
            and first.runs_where(second)
            and sum((first.arrays | second.arrays).values()) <= self.room_bytes
        )

    def _gains(self, first: Cluster, second: Cluster, joining: Cluster, alone: bool) -> bool:
        """Return whether doing two clusters as one task is worth what it costs."""
        limits = self.granularity
        if min(first.best_s, second.best_s) >= limits.minimum_s:
            return False
        # The first would have to wait for what only the second needs.
        if any(s > limits.saved_s for array, s in second.inputs_s.items() if array not in first.arrays):
            return False
        # Where each could have had the device it likes best, the saving must make up for it.
        together = min(first.with_seconds(second))
        if together > first.best_s + second.best_s + limits.saved_s:
            return False
        # With others beside it, what joins is done one after another with them instead of at once, if there are lanes.
        return alone or limits.lanes == 1 or joining.best_s <= limits.saved_s

    def _join(self, name: int, into: int, members: list[int]) -> None:
        gone, kept = self.clusters.pop(name), self.clusters[into]
        kept.members, kept.seconds = members, kept.with_seconds(gone)
        kept.arrays, kept.inputs_s = kept.arrays | gone.arrays, kept.inputs_s | gone.inputs_s
        for before in gone.predecessors:
            successors = self.clusters[before].successors
            successors.discard(name)
            if before != into:
                successors.add(into)
                kept.predecessors.add(before)
        for after in gone.successors:
            predecessors = self.clusters[after].predecessors
            predecessors.discard(name)
            if after != into:
                predecessors.add(into)
                kept.successors.add(after)

    def _join_twins(self) -> None:
        classes: dict[object, list[int]] = {}
        for name, cluster in self.clusters.items():
            # Two that are more than half as long as they should be make one that is longer than need be.
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
        """Return twins in batches: as many for every lane, about equally long, on average no less than the minimum."""
        lanes = self.granularity.lanes
        seconds = [self.clusters[name].best_s for name in twins]
        count = lanes * max(1, math.floor(sum(seconds) / (self.granularity.minimum_s * lanes)))
        if len(twins) <= count:
            return ()
        # Each goes to the batch in whose share of the time its middle lies.
        middles = [end - each / 2 for end, each in zip(accumulate(seconds), seconds, strict=True)]
        total = sum(seconds)
        batches: dict[int, list[int]] = {}
        for position, (name, middle) in enumerate(zip(twins, middles, strict=True)):
            share = middle / total if total > 0 else position / len(twins)
            batches.setdefault(min(count - 1, int(share * count)), []).append(name)
        return batches.values()
