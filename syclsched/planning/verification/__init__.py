# SPDX-License-Identifier: Apache-2.0
"""Verification of a finished plan, independent of planning. Internal."""
