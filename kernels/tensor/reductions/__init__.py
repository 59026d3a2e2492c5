# SPDX-License-Identifier: Apache-2.0
"""Reductions, scans, top-k, argmax and argmin. Internal."""
