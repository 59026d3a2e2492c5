# SPDX-License-Identifier: Apache-2.0
"""Replay of captured plans: instances, submission strategies, one-call runs. Internal."""
