# SPDX-License-Identifier: Apache-2.0
"""In-order lanes: queues and host threads that execute instructions. Internal."""
