# SPDX-License-Identifier: Apache-2.0
"""Constrained evaluator of the search: any objective, limits, and contention. Internal."""
