# SPDX-License-Identifier: Apache-2.0
"""Convolutions: direct, by work-groups, Winograd, transposed, depthwise. Internal."""
