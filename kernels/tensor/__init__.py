# SPDX-License-Identifier: Apache-2.0
"""Operations on tensors, made to measure by cached factories: element-wise, reductions, and moving elements about."""
