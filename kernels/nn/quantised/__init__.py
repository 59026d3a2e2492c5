# SPDX-License-Identifier: Apache-2.0
"""Products and convolutions of quantised values. Internal."""
