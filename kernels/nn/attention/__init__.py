# SPDX-License-Identifier: Apache-2.0
"""Attention over a cache of keys and values, and what fills the cache."""
