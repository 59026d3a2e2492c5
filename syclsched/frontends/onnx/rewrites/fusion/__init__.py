# SPDX-License-Identifier: Apache-2.0
"""Fusion rewrites: element-wise chains, normalisations, post-operations. Internal."""
