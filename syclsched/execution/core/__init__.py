# SPDX-License-Identifier: Apache-2.0
"""Basics of execution: the program of a plan, records, clocks, threads and failures. Internal."""
