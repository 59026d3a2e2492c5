# SPDX-License-Identifier: Apache-2.0
"""Data layout rewrites: channels first or last, transposes, concatenations, padding. Internal."""
