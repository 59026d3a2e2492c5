# SPDX-License-Identifier: Apache-2.0
"""Tensor operations by cached factories: element-wise expressions, reductions, scans, and data movement."""
