# SPDX-License-Identifier: Apache-2.0
"""Built-in scheduling policies, one per file, each from its paper."""
