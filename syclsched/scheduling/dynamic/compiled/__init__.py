# SPDX-License-Identifier: Apache-2.0
"""Dynamic policies and their run state, compiled. Internal."""
