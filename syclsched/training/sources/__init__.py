# SPDX-License-Identifier: Apache-2.0
"""Sources of what is trained: ONNX models and task graphs, with the parameters that a step changes. Internal."""
