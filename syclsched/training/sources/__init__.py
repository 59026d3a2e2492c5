# SPDX-License-Identifier: Apache-2.0
"""Sources of trained models: ONNX models and task graphs, with the parameters that a step changes. Internal."""
