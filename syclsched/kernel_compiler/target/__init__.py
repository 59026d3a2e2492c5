# SPDX-License-Identifier: Apache-2.0
"""numba's target for SPIR-V kernels: types, contexts, code libraries and optimisation. Internal."""
