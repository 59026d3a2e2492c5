# SPDX-License-Identifier: Apache-2.0
"""Shapes of a compiled model's calls: those that values of inputs decide, and buckets of extents. Internal."""
