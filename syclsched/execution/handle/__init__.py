# SPDX-License-Identifier: Apache-2.0
"""The handle of a run: results, waiting, cancellation, watchdog. Internal."""
