# SPDX-License-Identifier: Apache-2.0
"""Operators whose results have as many elements as values say: arrays of the largest extent, and a length. Internal."""
