# SPDX-License-Identifier: Apache-2.0
"""USM memory: allocation, pools and constants. Internal."""
