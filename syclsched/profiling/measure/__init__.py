# SPDX-License-Identifier: Apache-2.0
"""Microbenchmarks of devices and links. Internal."""
