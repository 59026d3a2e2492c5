# SPDX-License-Identifier: Apache-2.0
"""Compile the numba-dpex kernels of the known-answer test, and write them to the package's folder.

    python tools/known_answer_kernels.py

Run it again whenever their sources, or the versions of numba-dpex, numba, dpctl or dpcpp-llvm-spirv change; until then
a test fails.
"""

from __future__ import annotations

import base64
import json
from typing import Any


def compiled() -> dict[str, Any]:
    """Return the file's contents: name and SPIR-V of each kernel, for devices that have float64."""
    from syclsched import oneapi

    oneapi.load()
    import dpctl

    from syclsched.devices.trust import known_answer_routes as routes
    from syclsched.devices.trust import known_answers

    queue = dpctl.SyclQueue("opencl:cpu")
    kernels = {}
    for dtype in known_answers.DTYPES:
        function = known_answers.python_function(dtype)
        name, spirv = routes.dpex_compile(queue, function, dtype)
        kernels[routes.dpex_key(queue.sycl_device, function, dtype)] = {
            "kernel": f"{function.__name__} {dtype.name}",
            "name": name,
            "spirv": base64.b64encode(spirv).decode(),
        }
    return {"made by": "tools/known_answer_kernels.py", "kernels": kernels}


if __name__ == "__main__":
    from syclsched.devices.trust.known_answer_routes import SHIPPED

    SHIPPED.write_text(json.dumps(compiled(), indent=1) + "\n", encoding="utf-8")
    print(f"{SHIPPED.name} written")
