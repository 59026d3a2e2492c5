# SPDX-License-Identifier: Apache-2.0
"""Submission in dynamic runs: tasks, copies, the execution log and failures. Internal."""
