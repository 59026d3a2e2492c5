# SPDX-License-Identifier: Apache-2.0
"""Charts drawn by matplotlib, which is imported when one is drawn. Internal."""
