# SPDX-License-Identifier: Apache-2.0
"""Test support for users: fault injection into real runs, and ONNX models with seeded weights."""
