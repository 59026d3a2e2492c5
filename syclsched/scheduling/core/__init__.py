# SPDX-License-Identifier: Apache-2.0
"""Compiled list-scheduling core of the policies: timelines, item locations, channels and task orders. Internal."""
