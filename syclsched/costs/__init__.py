# SPDX-License-Identifier: Apache-2.0
"""What tasks and copies cost: capability, roofline, measured history, and the model that joins them."""

from syclsched.costs.capability import unsupported
from syclsched.costs.estimate import Estimate
from syclsched.costs.history import History, HistoryKey, MemoryHistory, signature_text
from syclsched.costs.model import CostModel

__all__ = ["CostModel", "Estimate", "History", "HistoryKey", "MemoryHistory", "signature_text", "unsupported"]
