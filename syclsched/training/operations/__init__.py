# SPDX-License-Identifier: Apache-2.0
"""Operations of task graphs as nodes of a network, and the arrays that their gradients compute with. Internal."""
