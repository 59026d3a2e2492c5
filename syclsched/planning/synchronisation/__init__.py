# SPDX-License-Identifier: Apache-2.0
"""Synchronisation of a plan: hazards, transitive reduction, fences. Internal."""
