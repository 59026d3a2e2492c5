# SPDX-License-Identifier: Apache-2.0
"""Device programs: sources, SPIR-V, compilation, and executables bound to arrays. Internal."""
