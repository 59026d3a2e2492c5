# SPDX-License-Identifier: Apache-2.0
"""Bound plans and streams. Internal."""
