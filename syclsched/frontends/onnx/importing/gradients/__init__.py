# SPDX-License-Identifier: Apache-2.0
"""Internal. Reverse-mode differentiation of networks of canonical nodes."""
