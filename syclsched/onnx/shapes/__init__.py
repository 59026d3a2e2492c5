# SPDX-License-Identifier: Apache-2.0
"""Shapes of a compiled model's calls, which values and buckets of extents decide, and plans for them. Internal."""
