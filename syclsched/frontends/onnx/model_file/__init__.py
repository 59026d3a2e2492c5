# SPDX-License-Identifier: Apache-2.0
"""ONNX files: reading, limits, tensors and functions. Internal."""
