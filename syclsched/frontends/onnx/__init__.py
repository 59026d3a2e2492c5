# SPDX-License-Identifier: Apache-2.0
"""ONNX frontend: read and check models, import them as canonical nodes, rewrite, and lower to a `TaskGraph`.

The pipeline: `reading` (file to checked model), `importing` (nodes of any opset to canonical nodes, see `network`, for
given input shapes), `rewrites` (optimisation of networks), `lowering` (canonical nodes to tasks). Only `reading` and
the host's reference implementations need the package ``onnx``.

Internal.
"""
