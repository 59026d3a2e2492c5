# SPDX-License-Identifier: Apache-2.0
"""Units, quantities, sections of rows, and JSON. Internal."""
