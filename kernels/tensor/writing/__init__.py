# SPDX-License-Identifier: Apache-2.0
"""Kernel generation for OpenCL C and Python. Internal."""
