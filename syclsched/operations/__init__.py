# SPDX-License-Identifier: Apache-2.0
"""Operations of users: made from a function, whose parameters, index space and work are read from its code.

Public are the names in ``__all__``; the modules are Internal.
"""

from __future__ import annotations

from syclsched.operations.definition import DefinedOperation, operation

__all__ = ["DefinedOperation", "operation"]
