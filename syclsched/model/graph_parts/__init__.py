# SPDX-License-Identifier: Apache-2.0
"""Parts of a task graph: names, argument binding, segments, dependencies, fingerprint. Internal."""
