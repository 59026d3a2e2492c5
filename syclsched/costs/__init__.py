# SPDX-License-Identifier: Apache-2.0
"""Cost model of tasks and copies: device capabilities, roofline and measured history.

Public are the names in ``__all__``; the modules are Internal.
"""

from syclsched.costs.capability import unsupported
from syclsched.costs.estimate import Estimate
from syclsched.costs.history import History, HistoryKey, MemoryHistory, Sample, signature_text
from syclsched.costs.model import CostModel

__all__ = ["CostModel", "Estimate", "History", "HistoryKey", "MemoryHistory", "Sample", "signature_text", "unsupported"]
