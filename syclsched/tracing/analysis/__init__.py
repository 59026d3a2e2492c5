# SPDX-License-Identifier: Apache-2.0
"""Analysis of traces: causes of delays, idle time, critical path, counters over time, single tasks. Internal."""
