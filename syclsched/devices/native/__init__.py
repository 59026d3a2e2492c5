# SPDX-License-Identifier: Apache-2.0
"""The C parts of submission, fences and wake-ups. Internal."""
