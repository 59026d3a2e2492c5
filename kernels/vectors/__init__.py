# SPDX-License-Identifier: Apache-2.0
"""Vector arithmetic for Python and OpenCL C kernels. Internal."""
