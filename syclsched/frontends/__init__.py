# SPDX-License-Identifier: Apache-2.0
"""Import and export of task graphs: files and other libraries' graphs. Libraries are imported on first use."""

from __future__ import annotations

from syclsched.frontends.dask_graph import from_dask
from syclsched.frontends.graph_io import parse_graph, read_graph, write_graph
from syclsched.frontends.graph_limits import Limits
from syclsched.frontends.graph_units import Units
from syclsched.frontends.networkx_graph import from_networkx, to_networkx

__all__ = ["Limits", "Units", "from_dask", "from_networkx", "parse_graph", "read_graph", "to_networkx", "write_graph"]
