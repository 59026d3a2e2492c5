# SPDX-License-Identifier: Apache-2.0
"""Built-in scheduling policies, by family; each class states its paper and how it differs."""
