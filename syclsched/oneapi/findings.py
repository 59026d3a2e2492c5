# SPDX-License-Identifier: Apache-2.0
"""Judge the facts about a machine: what is there, what is missing, what that means and the command that mends it.

Pure functions from `Facts` to findings, so that every case can be tried without breaking a machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from .emulator import supported as emulator_supported
from .facts import Facts, is_intel
from .libraries import LibraryFound
from .pins import NUMPY_REQUIREMENT, PINS, install_command, shipped_by
from .processor import KNOWN_ARCHITECTURES, TARGET_ARCH_VARIABLE

Status = Literal["ok", "warning", "missing", "info"]

_MACHINES = frozenset(("x86_64", "AMD64"))
_PYTHONS = ((3, 10), (3, 11))
_REQUIRED = ("dpctl", "dpnp", "numba-dpex", "numba", "intel-sycl-rt", "intel-opencl-rt", "intel-cmplr-lib-rt")
_BUSY_FRACTION = 0.25
_EMULATOR_BYTES = 110_000_000
_REBUILD_COMMAND = "python -m pip install --force-reinstall --no-deps --no-cache-dir syclsched"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes
    ----------
    topic : str
        What it is about, in a word or two.
    status : {"ok", "warning", "missing", "info"}
        ``missing`` means that something is needed and not there or not usable.
    what : str
        What was found.
    meaning : str or None
        What follows from it for the user.
    mend : str or None
        The command, or else the step, that mends it.
    """

    topic: str
    status: Status
    what: str
    meaning: str | None = None
    mend: str | None = None


def judge(facts: Facts) -> tuple[Finding, ...]:
    """Return all findings, in the order in which one thing needs another."""
    judges: tuple[Callable[[Facts], Iterable[Finding]], ...] = (
        judge_machine,
        judge_packages,
        judge_sycl,
        judge_opencl,
        judge_layer,
        judge_emulator,
        judge_environment,
        judge_loading,
        judge_devices,
        judge_gpu,
        judge_load,
        judge_folders,
    )
    return tuple(finding for each in judges for finding in each(facts))


def usable(facts: Facts) -> bool:
    """Tell whether there is at least one device that may be given work."""
    return any(device.trusted for device in facts.probe.devices)


def judge_machine(facts: Facts) -> Iterator[Finding]:
    """Judge operating system, processor architecture and Python version."""
    version = f"Python {facts.python[0]}.{facts.python[1]}"
    if facts.system != "Linux" or facts.machine not in _MACHINES:
        yield Finding(
            "machine",
            "missing",
            f"{facts.system} on {facts.machine}",
            "the SYCL packages are used on Linux x86-64 only; graphs, planning and simulation work here",
        )
    if facts.python not in _PYTHONS:
        yield Finding(
            "Python",
            "missing",
            version,
            "numba-dpex has no package for this version; it has them for Python 3.10 and 3.11",
            "python3.11 -m venv syclsched-env",
        )
    else:
        yield Finding("Python", "ok", f"{version}, {facts.system} on {facts.machine}")


def judge_packages(facts: Facts) -> Iterator[Finding]:
    """Judge the installed distributions and whether they are of one generation."""
    versions = facts.versions
    absent = [name for name in _REQUIRED if name not in versions]
    if absent:
        yield Finding(
            "packages",
            "missing",
            f"not installed: {', '.join(absent)}",
            "without them no device can be used",
            install_command(absent),
        )
    yield from _wrong_pairs(versions)
    present = ", ".join(f"{name} {versions[name]}" for name in _REQUIRED if name in versions)
    if present:
        yield Finding("packages", "info", present)


def _wrong_pairs(versions: Mapping[str, str]) -> Iterator[Finding]:
    dpex, dpctl = versions.get("numba-dpex"), versions.get("dpctl")
    if dpex is not None and dpctl is not None and not _same(dpctl, PINS["dpctl"], parts=2):
        yield Finding(
            "packages",
            "missing",
            f"numba-dpex {dpex} with dpctl {dpctl}",
            f"numba-dpex is linked against dpctl {PINS['dpctl']}'s library (libDPCTLSyclInterface.so.0), which other "
            "versions do not have: it cannot be imported",
            install_command(),
        )
    numba = versions.get("numba")
    if dpex is not None and numba is not None and not _same(numba, PINS["numba"], parts=2):
        yield Finding(
            "packages",
            "missing",
            f"numba-dpex {dpex} with numba {numba}",
            f"numba-dpex uses inner parts of numba {PINS['numba']} that other versions do not have",
            install_command(("numba",)),
        )
    numpy = versions.get("numpy")
    if numpy is not None and _same(dpctl or PINS["dpctl"], PINS["dpctl"], parts=2) and int(numpy.split(".")[0]) >= 2:
        yield Finding(
            "packages",
            "missing",
            f"NumPy {numpy}",
            "the pinned dpctl, dpnp and numba are compiled for NumPy 1",
            f'python -m pip install "{NUMPY_REQUIREMENT}"',
        )


def _same(version: str, wanted: str, parts: int) -> bool:
    return version.split(".")[:parts] == wanted.split(".")[:parts]


def judge_sycl(facts: Facts) -> Iterator[Finding]:
    """Judge the SYCL runtime's library and its OpenCL adapter."""
    runtime = facts.versions.get("intel-sycl-rt") or facts.versions.get("dpcpp-cpp-rt")
    if facts.sycl_library is None:
        needed = facts.needed_sycl or "libsycl"
        yield Finding(
            "SYCL runtime",
            "missing",
            f"{needed} was not found" + (f" (the SYCL runtime installed is {runtime})" if runtime else ""),
            "dpctl cannot be imported without the generation of the runtime it was built with",
            install_command(("intel-sycl-rt", "intel-cmplr-lib-rt", "dpctl")),
        )
    elif facts.adapter is None:
        lost = bool(runtime and _same(runtime, "2026.2", parts=2))
        yield Finding(
            "SYCL runtime",
            "missing",
            f"{facts.sycl_library} is there, its OpenCL adapter is not",
            ("the 2026.2 wheel was published without it: " if lost else "") + "the runtime shows no OpenCL device",
            install_command(),
        )
    else:
        yield Finding("SYCL runtime", "ok", facts.sycl_library)


def judge_opencl(facts: Facts) -> Iterator[Finding]:
    """Judge the OpenCL loader and the CPU's driver."""
    if facts.opencl_loader is None:
        yield Finding(
            "OpenCL",
            "missing",
            "no OpenCL library (libOpenCL.so.1)",
            "the SYCL runtime reaches the CPU, the FPGA emulator and many GPUs through it",
            install_command(("intel-opencl-rt",)),
        )
    else:
        yield Finding("OpenCL", "ok", facts.opencl_loader)
    if facts.cpu_driver is None and "OCL_ICD_FILENAMES" not in facts.users_variables:
        yield Finding(
            "OpenCL drivers",
            "missing",
            "no OpenCL driver for the CPU (libintelocl.so)",
            "the processor does not show up as a device, and the FPGA emulator cannot be made",
            install_command(("intel-opencl-rt",)),
        )
    elif facts.cpu_driver is not None:
        yield Finding("OpenCL drivers", "ok", facts.cpu_driver)


def judge_layer(facts: Facts) -> Iterator[Finding]:
    """Judge the OpenCL layer that the build compiles."""
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


def judge_emulator(facts: Facts) -> Iterator[Finding]:
    """Say whether the FPGA emulator is there, and why not."""
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
            "it can be made from the 2024 generation only",
            install_command(("intel-opencl-rt",)),
        )
    else:
        notes = [note for note in facts.probe.notes if "emulator" in note]
        yield Finding(
            "FPGA emulator",
            "warning",
            notes[0] if notes else "not available",
            "there is one device less to run on",
            "see the cache folder below: it must be writable and have 100 MB of room",
        )


def judge_environment(facts: Facts) -> Iterator[Finding]:
    """Judge the variables the user has set that change devices or generated code."""
    for name, value in facts.users_variables.items():
        if name == TARGET_ARCH_VARIABLE and value not in KNOWN_ARCHITECTURES:
            yield Finding(
                "environment",
                "warning",
                f"{name}={value} is not a name known to work ({', '.join(KNOWN_ARCHITECTURES)})",
                "with a name it does not know the CPU runtime refuses to make a context",
                f"unset {name}",
            )
        else:
            yield Finding("environment", "info", f"{name}={value} (set by you, respected)")
    if facts.target_arch is None and TARGET_ARCH_VARIABLE not in facts.users_variables:
        yield Finding(
            "environment",
            "warning",
            "the processor's flags fit none of the instruction sets the CPU runtime knows",
            "it decides itself which code to generate; the known-answer test decides whether that is right",
        )


def judge_loading(facts: Facts) -> Iterator[Finding]:
    """Judge whether a fresh process could load the stack, and which libraries it could not."""
    probe = facts.probe
    if probe.error is not None:
        yield Finding("loading", "missing", probe.error, "no device can be used", probe.hint)
    if probe.died is not None:
        yield Finding(
            "loading",
            "missing",
            f"a process that loaded the stack and tried the devices died ({probe.died})",
            f"it last said: {probe.stderr}" if probe.stderr else "a driver or library is broken",
            "ONEAPI_DEVICE_SELECTOR='!*:gpu' python -m syclsched doctor",
        )
    for library in probe.libraries:
        if library.error is not None:
            owner = shipped_by(library.name)
            yield Finding(
                "libraries",
                "warning",
                f"{library.name} could not be loaded: {library.error}",
                "what needs it (dpnp's linear algebra, for oneMKL's) fails when it is used",
                install_command((owner,)) if owner else None,
            )


def judge_devices(facts: Facts) -> Iterator[Finding]:
    """Judge the devices shown, by their verdicts."""
    probe = facts.probe
    if not probe.devices and probe.error is None:
        yield Finding(
            "devices",
            "missing",
            "the runtime shows no device",
            "nothing can be run; graphs can be planned and simulated for other platforms",
            _mend_no_devices(facts),
        )
    for device in probe.devices:
        label = f"{device.name} ({device.backend} {device.kind}, driver {device.driver})"
        if device.trusted:
            yield Finding("device", "ok", f"{label}: gave all known answers")
        elif device.trusted is None:
            yield Finding("device", "missing", f"{label}: its check did not end", "it is refused for work")
        else:
            yield Finding(
                "device",
                "missing",
                f"{label}: {device.reason}",
                "it is refused for work, because its results would be wrong",
                _mend_untrusted(facts),
            )
        for reason in device.skipped:
            yield Finding("device", "info", f"{label}: not tried, {reason}")


def _mend_no_devices(facts: Facts) -> str:
    if "ONEAPI_DEVICE_SELECTOR" in facts.users_variables:
        return "unset ONEAPI_DEVICE_SELECTOR"
    return "unset OCL_ICD_FILENAMES" if "OCL_ICD_FILENAMES" in facts.users_variables else install_command()


def _mend_untrusted(facts: Facts) -> str:
    set_ones = [name for name in facts.users_variables if name.startswith("CL_CONFIG_")]
    if set_ones:
        return "unset " + " ".join(set_ones)
    return "export CL_CONFIG_CPU_VECTORIZER_MODE=1"


def judge_gpu(facts: Facts) -> Iterator[Finding]:
    """Judge whether the machine's GPUs may be opened and are shown by the runtime."""
    for node in facts.render_nodes:
        if not node.readable:
            yield Finding(
                "GPU",
                "missing",
                f"{node.path} is there but may not be opened",
                f"it belongs to the group {node.group}, which you are not in: the GPU does not show up as a device",
                f"sudo usermod -aG {node.group} $USER   (then log in again)",
            )
    readable = [node for node in facts.render_nodes if node.readable]
    shown = any(device.kind == "gpu" for device in facts.probe.devices)
    if any(is_intel(node) for node in readable) and not shown:
        yield Finding(
            "GPU",
            "warning",
            "an Intel GPU is there and the SYCL runtime does not show it",
            "its compute driver (Level Zero or OpenCL) is missing",
            "sudo apt-get install intel-opencl-icd",
        )
    elif not facts.render_nodes:
        yield Finding("GPU", "info", "none (/dev/dri has no render node)")


def judge_load(facts: Facts) -> Iterator[Finding]:
    """Judge whether something else keeps the processors busy."""
    busy = facts.busy_fraction
    average = "" if facts.load_average is None else f", load average {facts.load_average:.2f}"
    if busy is None:
        yield Finding("load", "info", f"how busy the {facts.processors} processors are is not known")
    elif busy > _BUSY_FRACTION:
        yield Finding(
            "load",
            "warning",
            f"the {facts.processors} processors are {busy:.0%} busy{average}",
            "measurements will be slower than the machine is and differ from run to run",
            "top -o %CPU",
        )
    else:
        yield Finding("load", "ok", f"the {facts.processors} processors are {busy:.0%} busy{average}")


def judge_folders(facts: Facts) -> Iterator[Finding]:
    """Judge the folders that are written to."""
    for folder in facts.folders:
        if not folder.writable:
            yield Finding(
                "folders",
                "warning",
                f"{folder.path} cannot be written to",
                f"it is the folder for {folder.purpose}: everything works, but nothing is kept there",
                "export XDG_CACHE_HOME=$HOME/.cache XDG_DATA_HOME=$HOME/.local/share",
            )
        elif folder.free_bytes is not None and folder.free_bytes < _EMULATOR_BYTES:
            yield Finding(
                "folders",
                "warning",
                f"{folder.path} has {folder.free_bytes / 1e6:.0f} MB of room left",
                f"{folder.purpose} needs up to {_EMULATOR_BYTES / 1e6:.0f} MB",
                f"df -h {folder.path}",
            )
        else:
            yield Finding("folders", "ok", f"{folder.path}: {folder.purpose}")


def explain_import_failure(
    message: str, versions: Mapping[str, str], libraries: Iterable[LibraryFound]
) -> tuple[str, str]:
    """Say why dpctl could not be imported, and which command mends it.

    Parameters
    ----------
    message : str
        The text of the ImportError.
    versions : mapping of str to str
        Installed distributions.
    libraries : iterable of LibraryFound
        What came of loading the stack's libraries.
    """
    doctor = "; `python -m syclsched doctor` says more"
    if "dpctl" not in versions and "No module named 'dpctl'" in message:
        return "dpctl is not installed", f"Run: {install_command()}{doctor}"
    found = re.search(r"(lib[\w+.-]+\.so[.\d]*)", message)
    owner = shipped_by(found.group(1)) if found else None
    broken = [each.name for each in libraries if each.path is None and each.error is not None]
    also = f" (not found: {', '.join(broken)})" if broken else ""
    if found and owner:
        return f"{found.group(1)} could not be loaded: {message}{also}", f"Run: {install_command((owner,))}{doctor}"
    return f"dpctl cannot be imported: {message}{also}", f"Run: {install_command()}{doctor}"
