# SPDX-License-Identifier: Apache-2.0
"""Fault tolerance: after a failure, the remaining tasks are determined, planned again, and executed. Internal."""
