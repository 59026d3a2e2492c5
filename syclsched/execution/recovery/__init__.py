# SPDX-License-Identifier: Apache-2.0
"""What becomes of a run when something breaks: what is left is worked out, planned anew, and done."""
