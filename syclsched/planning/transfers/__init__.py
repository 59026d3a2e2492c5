# SPDX-License-Identifier: Apache-2.0
"""Transfers of a plan: placement and prefetch. Internal."""
