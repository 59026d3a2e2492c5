# SPDX-License-Identifier: Apache-2.0
"""Optimisation passes on networks: pure, result-preserving, and each can be switched off. Internal."""

from syclsched.frontends.onnx.rewrites.pass_pipeline import (
    DEFAULT_PASSES,
    PASSES,
    NetworkChange,
    OptimisedNetwork,
    Pass,
    rewrite,
)

__all__ = ["DEFAULT_PASSES", "PASSES", "NetworkChange", "OptimisedNetwork", "Pass", "rewrite"]
