# SPDX-License-Identifier: Apache-2.0
"""SYCL backends: a file for each one that is more than the general SYCL path. Internal."""
