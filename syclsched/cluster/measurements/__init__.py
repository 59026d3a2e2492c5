# SPDX-License-Identifier: Apache-2.0
"""Measurements of a cluster: the network between its machines, their clocks, and their devices. Internal."""
