# SPDX-License-Identifier: Apache-2.0
"""ONNX models as task graphs: `load` a model to get its graph, or `compile` it into a callable.

    import syclsched

    compiled = syclsched.compile("model.onnx")
    outputs = compiled({"image": image})

`syclsched.frontends.onnx` imports a file and lowers it to tasks; this package is the user interface.
"""

from syclsched.onnx.compiled_model import CompiledModel, compile
from syclsched.onnx.model import OnnxModel, load
from syclsched.onnx.report import OperatorTime, Report
from syclsched.onnx.specialised import Specialised

__all__ = ["CompiledModel", "OnnxModel", "OperatorTime", "Report", "Specialised", "compile", "load"]
