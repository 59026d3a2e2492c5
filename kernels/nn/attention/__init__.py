# SPDX-License-Identifier: Apache-2.0
"""Attention over a cache of keys and values, and writes to the cache. Internal."""
