# SPDX-License-Identifier: Apache-2.0
"""Stored profiles and task times. Internal."""
