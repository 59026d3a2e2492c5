# SPDX-License-Identifier: Apache-2.0
"""Commands for the compiled submission loop, and one-call runs. Internal."""
