# SPDX-License-Identifier: Apache-2.0
"""Task graphs from and to other libraries' graphs; each library is imported when it is used."""

from __future__ import annotations

from syclsched.frontends.networkx_graph import from_networkx, to_networkx

__all__ = ["from_networkx", "to_networkx"]
