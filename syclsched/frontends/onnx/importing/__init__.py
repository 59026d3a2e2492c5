# SPDX-License-Identifier: Apache-2.0
"""Models become networks: nodes of any opset become canonical ones, for given shapes of the inputs.

What is known beforehand is computed beforehand: shapes, and whatever follows from them and from constants.
"""

from __future__ import annotations

from syclsched.frontends.onnx.importing.driver import import_model
from syclsched.frontends.onnx.importing.registry import operators

__all__ = ["import_model", "operators"]
