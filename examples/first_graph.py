# SPDX-License-Identifier: Apache-2.0
"""A first graph: three tasks, two of them on the best device for them, the third on the host."""

import numpy as np

import syclsched
from syclsched.kernels import get

a, b = np.arange(256.0 * 256).reshape(256, 256) / 1000, np.eye(256)

graph = syclsched.TaskGraph("first")
x, y = graph.array("x", data=a), graph.array("y", data=b)
z, total = graph.array("z", data=np.zeros((256, 256))), graph.array("total", (1,))
graph.kernel(get("gemm"), c=z, a=x, b=y)  # z = x @ y
graph.kernel(get("scale"), x=z, alpha=2.0)  # z *= -2
graph.host(lambda z, total: total.fill(z.sum()), z=z.read(), total=total.write(), name="sum")

plan = syclsched.plan(graph, syclsched.discover())
syclsched.verify(plan, graph)  # planning did this already, and running does it again
with syclsched.run(graph, plan=plan) as run:
    print(f"{len(graph)} tasks, {plan.counters.dependencies} dependencies")
    print(f"total: {run.result(total)[0]:.3f}")
    print("right:", np.allclose(run.result(z), 2 * a))
