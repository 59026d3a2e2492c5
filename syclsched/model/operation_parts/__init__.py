# SPDX-License-Identifier: Apache-2.0
"""Code of kernels and calls of libraries, which `syclsched.model.operation` makes public. Internal."""
