# SPDX-License-Identifier: Apache-2.0
"""Data of dynamic runs: coherence, memory capacity, transfers on demand. Internal."""
