# SPDX-License-Identifier: Apache-2.0
"""State of a cluster, and progress of functions on its workers. Internal."""
