# SPDX-License-Identifier: Apache-2.0
"""Continuation of runs on several machines after a loss: surviving values and the remaining tasks. Internal."""
