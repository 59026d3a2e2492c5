# SPDX-License-Identifier: Apache-2.0
"""Findings about the installation: packages of one generation, SYCL and OpenCL libraries, layer and emulator.

Pure functions from `Facts` to findings, so that every case can be tested without breaking a machine.
"""

from __future__ import annotations

from collections.abc import Iterator

from syclsched.oneapi.diagnosis.facts import Facts
from syclsched.oneapi.diagnosis.finding import Finding
from syclsched.oneapi.emulator import supported as emulator_supported
from syclsched.oneapi.stack_generation import GENERATIONS, NUMBA_DPEX, StackGeneration

_MACHINES = frozenset(("x86_64", "AMD64"))
#: Distributions that are linked against, or compiled for, each other.
_LINKED = frozenset(("dpctl", "dpnp", "numba-dpex", "numba", "numpy"))
_MODELS_COMMAND = "python -m pip install 'syclsched[onnx]'"
_REBUILD_COMMAND = "python -m pip install --force-reinstall --no-deps --no-cache-dir syclsched"


def judge_machine(facts: Facts) -> Iterator[Finding]:
    """Report operating system, processor architecture and Python version."""
    version = f"Python {facts.python[0]}.{facts.python[1]}"
    if facts.system != "Linux" or facts.machine not in _MACHINES:
        yield Finding(
            "machine",
            "missing",
            f"{facts.system} on {facts.machine}",
            "the SYCL packages are used on Linux x86-64 only; graphs, planning and simulation work here",
        )
    if not any(each.supports_python(facts.python) for each in GENERATIONS):
        first, last = min(each.pythons[0] for each in GENERATIONS), max(each.pythons[1] for each in GENERATIONS)
        yield Finding(
            "Python",
            "missing",
            version,
            f"the SYCL packages are made for Python {_dotted(first)} to {_dotted(last)}",
            f"python{_dotted(last)} -m venv syclsched-env",
        )
    else:
        yield Finding("Python", "ok", f"{version}, {facts.system} on {facts.machine}")


def judge_packages(facts: Facts) -> Iterator[Finding]:
    """Report the installed distributions, their generation, and whether they are all of it."""
    versions, generation = facts.versions, facts.generation
    absent = [name for name in generation.pins if name in generation.required and name not in versions]
    if absent:
        yield Finding(
            "packages",
            "missing",
            f"not installed: {', '.join(absent)}",
            "without them no device can be used",
            generation.install_command(absent),
        )
    yield from _mismatched_packages(generation, facts)
    present = ", ".join(f"{name} {versions[name]}" for name in generation.required if name in versions)
    if present:
        yield Finding("packages", "info", present)
    yield from _other_generation(generation, facts)


def _mismatched_packages(generation: StackGeneration, facts: Facts) -> Iterator[Finding]:
    """Report distributions that are of another release than the rest."""
    mismatched = generation.mismatched_packages(facts.versions)
    if mismatched:
        what, command = generation.describe_mixed(facts.versions)
        is_fatal = bool(_LINKED.intersection(mismatched))
        yield Finding("packages", "missing" if is_fatal else "warning", what, _meaning(generation, mismatched), command)


def _meaning(generation: StackGeneration, mismatched: tuple[str, ...]) -> str:
    """Return the consequence of a mixed installation."""
    if mismatched == ("numpy",):
        return f"the pinned dpctl, dpnp and numba are compiled for NumPy {generation.numpy_end[0] - 1}"
    if _LINKED.intersection(mismatched):
        return "the packages are linked against each other's libraries of one release: some cannot be imported"
    return "they were not tested together; devices may be missing"


def judge_tbb(facts: Facts) -> Iterator[Finding]:
    """Report several copies of oneTBB."""
    if len(facts.tbb) > 1:
        yield Finding(
            "oneTBB",
            "warning",
            f"{len(facts.tbb)} copies can be loaded: {', '.join(facts.tbb)}",
            "the first one loaded serves the CPU device, oneMKL and oneDNN alike; an older one lacks functions",
            "unset LD_LIBRARY_PATH",
        )


def _other_generation(generation: StackGeneration, facts: Facts) -> Iterator[Finding]:
    """Report the generation in use, and the advantages of the other one here."""
    for other in GENERATIONS:
        if other is generation:
            continue
        if other.supports_python(facts.python):
            how = f"in a new environment, from a checkout: {other.change_command}"
        else:
            how = f"it needs Python {_dotted(other.pythons[0])} to {_dotted(other.pythons[1])}"
        yield Finding(
            "generation",
            "info",
            f"{generation.name}; the other, {other.name}, offers {other.advantages} ({how})",
        )


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def judge_sycl(facts: Facts) -> Iterator[Finding]:
    """Report the SYCL runtime's library and its OpenCL adapter."""
    runtime = facts.versions.get("intel-sycl-rt") or facts.versions.get("dpcpp-cpp-rt")
    if facts.sycl_library is None:
        needed = facts.needed_sycl or "libsycl"
        yield Finding(
            "SYCL runtime",
            "missing",
            f"{needed} was not found" + (f" (the SYCL runtime installed is {runtime})" if runtime else ""),
            "dpctl cannot be imported without the generation of the runtime it was built with",
            facts.generation.install_command(("intel-sycl-rt", "intel-cmplr-lib-rt", "dpctl")),
        )
    elif facts.adapter is None and not facts.probe.devices:  # some releases have the adapter within the loader
        missing = bool(runtime and runtime.startswith("2026.2"))
        yield Finding(
            "SYCL runtime",
            "missing",
            f"{facts.sycl_library} is there, its OpenCL adapter is not",
            ("the 2026.2 wheel has no library of its own for it: " if missing else "")
            + "the runtime shows no OpenCL device",
            facts.generation.install_command(),
        )
    else:
        yield Finding("SYCL runtime", "ok", facts.sycl_library)


def judge_opencl(facts: Facts) -> Iterator[Finding]:
    """Report the OpenCL loader and the CPU's driver."""
    if facts.opencl_loader is None:
        yield Finding(
            "OpenCL",
            "missing",
            "no OpenCL library (libOpenCL.so.1)",
            "the SYCL runtime reaches the CPU, the FPGA emulator and many GPUs through it",
            facts.generation.install_command(("intel-opencl-rt",)),
        )
    else:
        yield Finding("OpenCL", "ok", facts.opencl_loader)
    if facts.cpu_driver is None and "OCL_ICD_FILENAMES" not in facts.users_variables:
        yield Finding(
            "OpenCL drivers",
            "missing",
            "no OpenCL driver for the CPU (libintelocl.so)",
            "the processor does not show up as a device, and the FPGA emulator cannot be made",
            facts.generation.install_command(("intel-opencl-rt",)),
        )
    elif facts.cpu_driver is not None:
        yield Finding("OpenCL drivers", "ok", facts.cpu_driver)


def judge_layer(facts: Facts) -> Iterator[Finding]:
    """Report the OpenCL layer that the build compiles."""
    if facts.layer is None:
        yield Finding(
            "OpenCL layer",
            "warning",
            "the package's OpenCL layer (syclsched/oneapi/_il_layer*.so) was not built",
            "numba-dpex kernels cannot run on OpenCL 1.2 devices such as the FPGA emulator",
            f"sudo apt-get install gcc libc6-dev && {_REBUILD_COMMAND}",
        )
    else:
        yield Finding("OpenCL layer", "ok", facts.layer)


def judge_submission(facts: Facts) -> Iterator[Finding]:
    """Report the submission loop that the build compiles."""
    if facts.submission is None:
        yield Finding(
            "submission loop",
            "missing",
            "the package's submission loop (syclsched/devices/native/_submit*.so) was not built",
            "no device can be opened: nothing submits to it",
            f"sudo apt-get install gcc libc6-dev && {_REBUILD_COMMAND}",
            is_blocking=True,
        )
    else:
        yield Finding("submission loop", "ok", facts.submission)


def judge_machine_code(facts: Facts) -> Iterator[Finding]:
    """Report the machine code of the planner that the build makes."""
    if facts.machine_code is None:
        yield Finding(
            "machine code",
            "warning",
            f"the planner's machine code: {facts.no_machine_code}",
            "the first plans and dynamic runs take a minute or two, while numba compiles the planner",
            f"sudo apt-get install gcc g++ libc6-dev && {_REBUILD_COMMAND}",
        )
    else:
        yield Finding("machine code", "ok", f"the planner's, for x86-64-{facts.machine_code}")


def judge_emulator(facts: Facts) -> Iterator[Finding]:
    """Report whether the FPGA emulator is available, and why not."""
    version = facts.versions.get("intel-opencl-rt")
    if facts.probe.emulator is not None:
        yield Finding("FPGA emulator", "ok", facts.probe.emulator)
    elif facts.emulator_off:
        yield Finding("FPGA emulator", "info", "switched off (SYCLSCHED_FPGA_EMULATOR)")
    elif "OCL_ICD_FILENAMES" in facts.users_variables:
        yield Finding(
            "FPGA emulator",
            "info",
            "not added: OCL_ICD_FILENAMES is set",
            "your own list of OpenCL drivers is used as it is",
            "unset OCL_ICD_FILENAMES",
        )
    elif not emulator_supported(version):
        yield Finding(
            "FPGA emulator",
            "info",
            f"not available with intel-opencl-rt {version or '(not installed)'}",
            f"it can be made from the packages of {NUMBA_DPEX.name} only",
            NUMBA_DPEX.change_command if NUMBA_DPEX.supports_python(facts.python) else None,
        )
    else:
        notes = [note for note in facts.probe.notes if "emulator" in note]
        yield Finding(
            "FPGA emulator",
            "warning",
            notes[0] if notes else "not available",
            "there is one device less to run on",
            'export XDG_CACHE_HOME="$(mktemp -d)"',
        )


def judge_models(facts: Facts) -> Iterator[Finding]:
    """Report whether ONNX models can be read, and whether oneDNN computes for them."""
    onnx, onednn, failed = facts.versions.get("onnx"), facts.versions.get("onednn"), facts.probe.onednn
    if onnx is None:
        yield Finding("ONNX models", "info", f"cannot be read: the package onnx is not installed ({_MODELS_COMMAND})")
    else:
        yield Finding("ONNX models", "ok", f"onnx {onnx}")
    if onednn is None:
        yield Finding("oneDNN", "info", f"not installed: kernels do its work, and slower ({_MODELS_COMMAND})")
    elif failed and any(failed in refusal for device in facts.probe.devices for refusal in device.refusals):
        yield Finding("oneDNN", "info", f"onednn {onednn} refuses the CPU device: kernels do its work, and slower")
    elif failed:
        yield Finding(
            "oneDNN",
            "warning",
            f"onednn {onednn} does not compute: {failed}",
            "kernels do its work, and slower",
            f"python -m pip uninstall onednn && {_MODELS_COMMAND}",
        )
    else:
        yield Finding("oneDNN", "ok", f"onednn {onednn}" + ("" if failed is None else ", computes on the CPU device"))
