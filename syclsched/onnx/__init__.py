# SPDX-License-Identifier: Apache-2.0
"""ONNX models as task graphs: `load` one, look at its graph, or `compile` it into something to be called.

    import syclsched

    compiled = syclsched.compile("model.onnx")
    outputs = compiled({"image": image})

The road from a file to tasks is `syclsched.frontends.onnx`; this is what a user holds.
"""

from syclsched.onnx.compiled import CompiledModel, compile
from syclsched.onnx.model import OnnxModel, load
from syclsched.onnx.report import OperatorTime, Report
from syclsched.onnx.specialised import Specialised

__all__ = ["CompiledModel", "OnnxModel", "OperatorTime", "Report", "Specialised", "compile", "load"]
