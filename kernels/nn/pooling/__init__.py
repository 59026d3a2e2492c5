# SPDX-License-Identifier: Apache-2.0
"""Pooling and resizing. Internal."""
