# SPDX-License-Identifier: Apache-2.0
"""Import of ONNX models as networks: conversion of nodes of any opset to canonical nodes, for given input shapes.

Shapes, and all values that depend only on shapes and constants, are computed at import. Internal.
"""

from __future__ import annotations

from syclsched.frontends.onnx.importing.importer_registry import operators
from syclsched.frontends.onnx.importing.model_importer import import_model

__all__ = ["import_model", "operators"]
