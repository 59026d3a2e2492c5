# SPDX-License-Identifier: Apache-2.0
"""The file format of plans: JSON with rows as columns. Internal."""
