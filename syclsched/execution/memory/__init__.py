# SPDX-License-Identifier: Apache-2.0
"""Buffers of a run: layout, allocation, admission, release, and the user's inputs and results. Internal."""
