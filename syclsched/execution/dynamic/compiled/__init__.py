# SPDX-License-Identifier: Apache-2.0
"""The compiled event loop of dynamic runs. Internal."""
