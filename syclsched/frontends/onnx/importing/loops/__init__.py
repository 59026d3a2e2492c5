# SPDX-License-Identifier: Apache-2.0
"""Import of the bodies of loops: as networks, what their counters are, and what does not belong in them. Internal."""
