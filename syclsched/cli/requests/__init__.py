# SPDX-License-Identifier: Apache-2.0
"""Graphs, models, platforms and plans made from options. Internal."""
