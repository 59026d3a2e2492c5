# SPDX-License-Identifier: Apache-2.0
"""Calls a second of one model by several threads at once, compared with ONNX Runtime on the same cores.

    python benchmarks/concurrent_calls.py [--models "perceptron, 64"] [--callers 1 8] [--rounds 5] [--seconds 1]

Both sides take and return NumPy arrays; each caller has inputs of its own. ONNX Runtime computes each call on
one thread, since the callers keep all cores busy. The sides take turns. The processor time of a call is meaningful
also where other processes use the machine. "Fewest" is the number of calls of the slowest caller, over that of all
callers on average: 1.0 if none waits longer than others.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Sequence

from common import format_range, parser, print_table
from onnx_models import Arrays, default_folder, given, ours, runtime_session, shapes_of

_MODELS = ["perceptron, 64", "isolation forest, 30 trees", "text classifier, 64 words", "lstm, 200 steps, 64"]


def calls_a_second(
    call: Callable[[Arrays], object], inputs: Sequence[Arrays], callers: int, seconds: float
) -> tuple[float, float, float]:
    """Return the calls that several threads complete together in a second, and the processor time of each, us.

    Also return the number of calls of the slowest caller over that of all callers on average.
    """
    counts = [0] * callers
    ends = threading.Event()

    def repeat(number: int) -> None:
        mine = inputs[number % len(inputs)]
        while not ends.is_set():
            call(mine)
            counts[number] += 1

    threads = [threading.Thread(target=repeat, args=(number,)) for number in range(callers)]
    begun, used = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    ends.set()
    for thread in threads:
        thread.join()
    calls = sum(counts)
    fewest = min(counts) * callers / calls
    return calls / (time.perf_counter() - begun), 1e6 * (time.process_time() - used) / calls, fewest


def main() -> None:
    """Measure each model with each number of callers."""
    options = parser(__doc__, models=_MODELS, callers=[1, 8], rounds=5, seconds=1.0).parse_args()
    rows = []
    for name in options.models:
        path, inputs = given(name, default_folder())
        session = runtime_session(path, 1)
        with ours(path, shapes_of(name)) as compiled:
            sides = {"ours": compiled, "runtime": lambda x, s=session: s.run(None, x)}
            for callers in options.callers:
                found: dict[str, list[tuple[float, float, float]]] = {side: [] for side in sides}
                for turn in range(options.rounds + 1):
                    for side, call in sides.items():
                        rate = calls_a_second(call, inputs, callers, options.seconds if turn else 0.3)
                        found[side] += [rate] if turn else []
                rates, used, fewest = ([[one[i] for one in found[side]] for side in sides] for i in range(3))
                ratio = statistics.median(rates[0]) / statistics.median(rates[1])
                said = [format_range(each, 0, 0) for each in rates]
                medians = [f"{statistics.median(each):.1f}" for each in used]
                medians += [f"{statistics.median(each):.2f}" for each in fewest]
                rows.append((name, str(callers), *said, f"{ratio:.2f}", *medians))
    columns = ("model", "callers", "ours", "ONNX Runtime", "ratio", "processor, µs", "ONNX Runtime's")
    columns += ("fewest", "ONNX Runtime's fewest")
    print_table("Calls a second: median (least to most)", columns, rows, ["model"])


if __name__ == "__main__":
    main()
