# SPDX-License-Identifier: Apache-2.0
"""Python kernels: compilation to SPIR-V by one of two compilers, kept by content, and launches on arrays. Internal."""
