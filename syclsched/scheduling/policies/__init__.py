# SPDX-License-Identifier: Apache-2.0
"""The policies that ship, one a file, each from its paper."""
