# SPDX-License-Identifier: Apache-2.0
"""State of a cluster and progress of what its workers do, for the process that asks. Internal."""
