# SPDX-License-Identifier: Apache-2.0
"""Internal. Importers of the operators of ``ai.onnx.preview.training``: gradients, and steps of optimisers."""
