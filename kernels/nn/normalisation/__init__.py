# SPDX-License-Identifier: Apache-2.0
"""Normalisations and softmax. Internal."""
