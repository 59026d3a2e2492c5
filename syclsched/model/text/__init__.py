# SPDX-License-Identifier: Apache-2.0
"""Units, quantities, JSON and printed plans. Internal."""
