# SPDX-License-Identifier: Apache-2.0
"""Gradients of convolutions and poolings. Internal."""
