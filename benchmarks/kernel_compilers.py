# SPDX-License-Identifier: Apache-2.0
"""Kernels compiled by the package's own compiler and by numba-dpex: processor time of compilation, and kernel times.

    SYCLSCHED_PROGRAM_CACHE=0 python benchmarks/kernel_compilers.py [name ...] [--samples 30]

The kernels are those of `kernels.py`, by family or part of a name. Both compilers compile each in turns in one process,
after an uncounted one; then the two kernels run in turns on the same arrays. Needs the generation numba-dpex.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from common import parser

from kernels import FAMILIES, Bench, Line
from syclsched.devices.programs.python_kernels import dpex_compiler, own_compiler
from syclsched.devices.programs.python_kernels.kernel_arguments import operation_arguments
from syclsched.errors import CapabilityError
from syclsched.kernel_compiler.python_kernel import PythonKernel
from syclsched.model.operation import Implementation, Signature, Tailored

COMPILERS: dict[str, Callable[..., Any]] = {
    "own": own_compiler.kernel_spirv,
    "numba-dpex": dpex_compiler.kernel_spirv,
}


def by(implementation: Implementation, compiler: Any) -> Implementation:
    """Return an implementation that uses one compiler."""

    def load(signature: Signature) -> Any:
        made = implementation.load(signature)
        if isinstance(made, Tailored):
            return Tailored(lambda limits: replace(made.of(limits), compiler=compiler))
        return replace(made, compiler=compiler)

    return replace(implementation, load=load)


def compile_s(bench: Bench, line: Line, implementation: Implementation) -> dict[str, float]:
    """Return each compiler's processor time for a kernel that is new to both."""
    signature = Signature(
        {name: shape for name, (shape, _) in line.arrays.items()},
        {name: dtype for name, (_, dtype) in line.arrays.items()},
        {},
        line.constants,
    )
    found = {}
    for name, compiler in COMPILERS.items():
        made = implementation.load(signature)
        kernel = made.of(bench.limits) if isinstance(made, Tailored) else made
        assert isinstance(kernel, PythonKernel) and implementation.launch is not None
        arguments = operation_arguments(line.operation, signature, implementation.launch(signature, bench.limits))
        begun = time.process_time()
        compiler(replace(kernel, compiler=name), arguments, bench.queue.sycl_device)
        found[name] = time.process_time() - begun
    return found


def run_s(bench: Bench, line: Line, implementation: Implementation, samples: int) -> dict[str, float]:
    """Return the median times of the two kernels, run in turns."""
    arrays = {name: bench.array(shape, dtype) for name, (shape, dtype) in line.arrays.items()}
    timed = {
        name: bench.sample(
            replace(line.operation, implementations=(by(implementation, name),)),
            by(implementation, name),
            arrays,
            line.constants,
        )
        for name in COMPILERS
    }
    times: dict[str, list[float]] = {name: [] for name in COMPILERS}
    for turn in range(samples):
        for name in (*COMPILERS,)[:: 1 if turn % 2 else -1]:
            times[name].append(timed[name]())
    return {name: statistics.median(each) for name, each in times.items()}


def chosen(bench: Bench, names: list[str]) -> Iterator[tuple[Line, Implementation]]:
    """Return the selected lines that have a Python kernel."""
    for family, lines in FAMILIES.items():
        for line in lines():
            if names and not any(name == family or name in line.name for name in names):
                continue
            for each in line.operation.implementations:
                kinds = each.requires.device_kinds
                if each.kind == "python" and not (kinds and "cpu" not in kinds) and not bench.refuses(line, each):
                    yield line, each


def main() -> None:
    arguments = parser(__doc__, samples=30)
    arguments.add_argument("names", nargs="*", help="families, or parts of lines' names; all if not given")
    options = arguments.parse_args()
    if os.environ.get("SYCLSCHED_PROGRAM_CACHE") != "0":
        raise SystemExit("set SYCLSCHED_PROGRAM_CACHE=0: else kernels are read from the cache")
    bench = Bench("cpu")
    print("| kernel | own, ms to compile | numba-dpex | ratio | own, ms to run | numba-dpex | ratio |")
    print("| --- |" + " ---: |" * 6)
    ratios: tuple[list[float], list[float]] = ([], [])
    for number, (line, implementation) in enumerate(chosen(bench, options.names)):
        try:
            compiled = compile_s(bench, line, implementation)
            if number == 0:
                compiled = compile_s(bench, line, implementation)  # the first call imports the compilers
            ran = run_s(bench, line, implementation, options.samples)
        except CapabilityError:
            continue
        cells = []
        for kind, times, collected in (("compile", compiled, ratios[0]), ("run", ran, ratios[1])):
            ratio = times["own"] / times["numba-dpex"]
            collected.append(ratio)
            digits = 0 if kind == "compile" else 3
            cells += [f"{1e3 * times[name]:.{digits}f}" for name in COMPILERS] + [f"{ratio:.2f}"]
        print(f"| {line.name} | " + " | ".join(cells) + " |", flush=True)
    compile_ratio, run_ratio = map(statistics.median, ratios)
    print(f"\nmedian ratios: {compile_ratio:.2f} to compile, {run_ratio:.2f} to run")


if __name__ == "__main__":
    main()
