# SPDX-License-Identifier: Apache-2.0
"""Runs of one graph on several machines, the workers of a Dask cluster.

Examples
--------
>>> import syclsched
>>> from syclsched.cluster import NetworkPath, joined
>>> paths = [("host", "a"), ("a", "host"), ("host", "b"), ("b", "host"), ("a", "b"), ("b", "a")]
>>> network = [NetworkPath(*pair, latency_s=1e-4, bandwidth_bytes_per_s=1e9) for pair in paths]
>>> joined(dict.fromkeys("ab", syclsched.describe("max1550")), network)
<Platform 'cluster': a/max1550, a/host, b/max1550, b/host; 5 memory spaces>
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syclsched.lazy_names import lazy_names

_LAZY = {
    "Cluster": "syclsched.cluster.connection",
    "ClusterRun": "syclsched.cluster.runs.cluster_run",
    "ClusterRunner": "syclsched.cluster.runs.runner",
    "ClusterStatus": "syclsched.cluster.monitor.cluster_status",
    "DeviceTime": "syclsched.cluster.measurements.part_times",
    "NetworkPath": "syclsched.cluster.platforms",
    "NetworkProfile": "syclsched.cluster.measurements.network",
    "NodeProfile": "syclsched.cluster.measurements.node_profiles",
    "PartTime": "syclsched.cluster.measurements.part_times",
    "connect": "syclsched.cluster.connection",
    "joined": "syclsched.cluster.platforms",
}

__all__ = sorted(_LAZY)

if TYPE_CHECKING:
    from syclsched.cluster.connection import Cluster as Cluster
    from syclsched.cluster.connection import connect as connect
    from syclsched.cluster.measurements.network import NetworkProfile as NetworkProfile
    from syclsched.cluster.measurements.node_profiles import NodeProfile as NodeProfile
    from syclsched.cluster.measurements.part_times import DeviceTime as DeviceTime
    from syclsched.cluster.measurements.part_times import PartTime as PartTime
    from syclsched.cluster.monitor.cluster_status import ClusterStatus as ClusterStatus
    from syclsched.cluster.platforms import NetworkPath as NetworkPath
    from syclsched.cluster.platforms import joined as joined
    from syclsched.cluster.runs.cluster_run import ClusterRun as ClusterRun
    from syclsched.cluster.runs.runner import ClusterRunner as ClusterRunner

__getattr__ = lazy_names(__name__, _LAZY)
