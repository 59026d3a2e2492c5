# SPDX-License-Identifier: Apache-2.0
"""Reductions, scans, top-k and places of extrema."""
