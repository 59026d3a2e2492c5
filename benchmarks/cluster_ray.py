# SPDX-License-Identifier: Apache-2.0
"""The graphs of `cluster_cases` computed with Ray, for ``cluster.py --ray PYTHON``, which starts this by itself.

Reads commands, one a line: a case with its arguments as JSON, which is checked, or ``run``. Answers each with a line:
the verdict, or the seconds of a run.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import ray
from cluster_cases import CASES


def main(workers: int) -> None:
    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level="error")
    made: dict[Any, Any] = {}

    def later(function: Callable[..., Any], *values: Any, outputs: int = 1) -> Any:
        if function not in made:
            made[function] = ray.remote(function)
        return made[function].options(num_returns=outputs).remote(*values)

    case, held = None, {}
    for line in sys.stdin:
        if line.strip() != "run":
            name, arguments = json.loads(line)
            case = CASES[name](**arguments)
            held = {each: ray.put(value) for each, value in case.inputs.items()}
            found = ray.get(case.program(later, held))
            print("right" if case.check(found) else "wrong", flush=True)
            continue
        assert case is not None
        begun = time.perf_counter()
        found = case.program(later, held)
        ray.wait(found, num_returns=len(found), fetch_local=False)
        print(time.perf_counter() - begun, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
