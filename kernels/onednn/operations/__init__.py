# SPDX-License-Identifier: Apache-2.0
"""Operations implemented by oneDNN primitives. Internal."""
