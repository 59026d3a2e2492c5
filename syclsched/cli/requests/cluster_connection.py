# SPDX-License-Identifier: Apache-2.0
"""Connection of commands to the machines of a Dask cluster, and graphs planned for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from syclsched.cli.options import ClusterOptions, ClusterPlanOptions, PlanOptions
from syclsched.cli.wait_notice import notice_if_slow
from syclsched.errors import ArgumentError
from syclsched.progress import terminal_bar

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.cluster import Cluster
    from syclsched.model.graph import TaskGraph
    from syclsched.model.plan import Plan

#: Options of planning that plans for one machine only have.
ONE_MACHINE = ("minimize", "subject_to", "rewrite", "reuse")


@contextmanager
def connected(machines: ClusterOptions, console: Console) -> Iterator[Cluster]:
    """Connect to a cluster, or start workers on this machine; disconnect, or end them, at the end of the block."""
    from syclsched.cluster import connect

    if machines.cluster is not None and machines.workers is not None:
        raise ArgumentError(
            "--cluster names a cluster that is there, --workers starts one",
            where="the command line",
            hint="Give one of them",
        )
    if not machines.named:
        raise ArgumentError(
            "no cluster is named",
            where="the command line",
            hint="Give the address of a Dask scheduler, --cluster tcp://host:8786, or --workers 2 to start two workers "
            "here",
        )
    what = machines.cluster if machines.workers is None else f"{machines.workers} workers"
    with console.status(f"connecting to {what} ..."):
        cluster = connect(machines.cluster, workers=machines.workers)
    with cluster:
        yield cluster


def plan_for_cluster(
    cluster: Cluster, graph: TaskGraph, how: ClusterPlanOptions | PlanOptions, console: Console, *, calibrate: bool
) -> Plan:
    """Plan a graph for all machines of a cluster; show the progress."""
    with terminal_bar("planning", console) as bar, notice_if_slow(console):
        return cluster.plan(graph, policy=how.policy, calibrate=calibrate, budget_s=how.budget, progress=bar)
