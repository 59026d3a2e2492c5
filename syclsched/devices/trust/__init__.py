# SPDX-License-Identifier: Apache-2.0
"""Known-answer tests that decide whether a device may be used. Internal."""
