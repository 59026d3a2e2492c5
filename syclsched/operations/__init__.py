# SPDX-License-Identifier: Apache-2.0
"""Operations of users: made from a function, whose parameters, index space and work are read from its code."""
