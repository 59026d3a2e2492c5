# SPDX-License-Identifier: Apache-2.0
"""ONNX models as task graphs: `load` a model to get its graph, or `compile` it into a callable.

`syclsched.frontends.onnx` imports a file and lowers it to tasks; this package is the user interface. Public are the
names in ``__all__``; the modules are Internal.

Examples
--------
>>> import numpy as np
>>> import onnx
>>> import syclsched
>>> shape = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, 3)) for name in "xy"]
>>> nodes = [onnx.helper.make_node("Relu", ["x"], ["y"])]
>>> model = onnx.helper.make_model(
...     onnx.helper.make_graph(nodes, "small", shape[:1], shape[1:]),
...     opset_imports=[onnx.helper.make_opsetid("", 17)],
...     ir_version=8,
... )
>>> with syclsched.onnx.compile(model, devices="cpu") as compiled:
...     print(compiled({"x": np.array([[-1, 0, 1]], "float32")})["y"])
[[0. 0. 1.]]
"""

from syclsched.onnx.compilation import compile
from syclsched.onnx.compiled_model import CompiledModel
from syclsched.onnx.model import OnnxModel, load
from syclsched.onnx.report import OperatorTime, Report
from syclsched.onnx.specialised import Specialised

__all__ = ["CompiledModel", "OnnxModel", "OperatorTime", "Report", "Specialised", "compile", "load"]
