# SPDX-License-Identifier: Apache-2.0
"""The dispatcher of one-off runs, and the step-by-step engine of debugged ones. Internal."""
