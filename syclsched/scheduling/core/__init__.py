# SPDX-License-Identifier: Apache-2.0
"""The compiled core that policies share: timelines with gaps, where items lie, channels, orders, list scheduling."""
