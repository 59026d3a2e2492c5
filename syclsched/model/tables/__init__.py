# SPDX-License-Identifier: Apache-2.0
"""Instructions and graph data as tables of numbers, and objects made from them on first access. Internal."""
