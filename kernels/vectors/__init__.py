# SPDX-License-Identifier: Apache-2.0
"""Vector arithmetic for numba-dpex and OpenCL C kernels. Internal."""
