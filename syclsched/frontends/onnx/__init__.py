# SPDX-License-Identifier: Apache-2.0
"""ONNX models in: read and checked, brought to canonical nodes, rewritten, and lowered to a `TaskGraph`.

The road: `reading` (a file becomes a checked model), `importing` (standard nodes of any opset, for given input shapes,
become the canonical nodes of `network`), `rewrites` (networks to better networks), `lowering` (canonical nodes become
tasks). Only `reading` and the host's reference implementations need the package ``onnx``.
"""
