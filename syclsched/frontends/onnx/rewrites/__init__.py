# SPDX-License-Identifier: Apache-2.0
"""From a network to one that gives the same with less work: pure passes, each of which can be switched off."""

from syclsched.frontends.onnx.rewrites.pipeline import DEFAULT_PASSES, PASSES, Deed, Pass, Rewritten, rewrite

__all__ = ["DEFAULT_PASSES", "PASSES", "Deed", "Pass", "Rewritten", "rewrite"]
