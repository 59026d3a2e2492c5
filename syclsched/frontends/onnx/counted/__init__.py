# SPDX-License-Identifier: Apache-2.0
"""Operators whose number of results depends on values: arrays of the largest extent, and a length. Internal."""
