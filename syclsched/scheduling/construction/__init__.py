# SPDX-License-Identifier: Apache-2.0
"""Construction of scheduling problems: from graph, platform and cost model, and from cost tables. Internal."""
