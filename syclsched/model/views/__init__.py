# SPDX-License-Identifier: Apache-2.0
"""Text, tables and charts of graphs, platforms, profiles, plans and traces. Internal."""
