# SPDX-License-Identifier: Apache-2.0
"""Transfers of a plan: placement, eviction, recomputation and prefetch. Internal."""
