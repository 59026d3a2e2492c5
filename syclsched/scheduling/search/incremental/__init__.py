# SPDX-License-Identifier: Apache-2.0
"""Incremental evaluator of the search: makespans in the contention-free model. Internal."""
