# SPDX-License-Identifier: Apache-2.0
"""Loops whose body is a network of its own: one task executes all iterations. Internal."""
