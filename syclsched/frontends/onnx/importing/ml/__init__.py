# SPDX-License-Identifier: Apache-2.0
"""Importers of the ai.onnx.ml operators. Internal."""
