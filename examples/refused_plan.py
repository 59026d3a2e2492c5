# SPDX-License-Identifier: Apache-2.0
"""A saved plan without one of its waits: the verifier names the racing tasks and the array. Needs no SYCL runtime."""

import json

import syclsched
from syclsched.errors import PlanError
from syclsched.kernels import get


def main() -> None:
    graph = syclsched.TaskGraph("sums")
    parts = [graph.array(f"part{i}", (4_000_000,)) for i in range(4)]
    for part in parts:
        graph.kernel(get("fill"), x=part, value=1.0, name=f"fill {part.name}")
    for part in parts[1:]:
        graph.kernel(get("axpy"), y=parts[0], x=part, alpha=1.0, name=f"add {part.name}")

    platform = syclsched.describe(["max1100", "max1100"], name="two GPUs")
    document = json.loads(syclsched.plan(graph, platform, policy="heft").to_json())
    columns = [lane["instructions"]["waits"] for lane in document["lanes"] if "waits" in lane["instructions"]]
    waiting = [(waits, place) for waits in columns for place, each in enumerate(waits) if each]
    print(f"the plan has {len(waiting)} instructions that wait for another lane; leaving out each in turn:")
    for waits, place in waiting:
        kept, waits[place] = waits[place], []
        try:
            syclsched.verify(syclsched.Plan.from_json(json.dumps(document)), graph)
        except PlanError as error:
            print(f"  {type(error).__name__}: {error}")
        else:
            raise SystemExit("a plan that lacks a wait was accepted")
        waits[place] = kept


if __name__ == "__main__":
    main()
