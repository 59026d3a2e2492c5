# SPDX-License-Identifier: Apache-2.0
"""Findings about use: environment, devices and their verdicts, GPUs, load and folders.

Pure functions from `Facts` to findings, so that every case can be tested without breaking a machine.
"""

from __future__ import annotations

from collections.abc import Iterator

from syclsched.oneapi.diagnosis.facts import Facts, is_intel
from syclsched.oneapi.diagnosis.finding import Finding
from syclsched.oneapi.opencl_drivers import DriverDevice
from syclsched.oneapi.processor import KNOWN_ARCHITECTURES, TARGET_ARCH_VARIABLE
from syclsched.oneapi.stack_generation import shipped_by

_BUSY_FRACTION = 0.25
#: OpenCL platforms whose devices DPC++ never shows through OpenCL (``IsBannedPlatform`` in its platform_impl.cpp).
_ADAPTERS = {"NVIDIA CUDA": "CUDA", "AMD Accelerated Parallel Processing": "HIP"}
#: By PCI vendor of a GPU, adapters that are not in the packages on PyPI.
_PLUGINS = {"0x10de": ("NVIDIA", "CUDA"), "0x1002": ("AMD", "HIP")}


def judge_environment(facts: Facts) -> Iterator[Finding]:
    """Report the variables set by the user that change devices or generated code."""
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


def judge_instruction_sets(facts: Facts) -> Iterator[Finding]:
    """Report the processor's instruction sets and those that compilers and libraries use."""
    probe = facts.probe
    found = ", ".join(facts.instruction_sets) or "none that is known"
    used = {"the OpenCL CPU device": probe.compiles_for, "oneDNN": probe.onednn_uses, "NumPy's BLAS": probe.blas_uses}
    known = ", ".join(f"{name} {value}" for name, value in used.items() if value is not None)
    yield Finding("instruction sets", "info", f"found: {found}; used by {known or 'nothing that could be asked'}")


def judge_loading(facts: Facts) -> Iterator[Finding]:
    """Report whether a new process could load the stack, and which libraries it could not."""
    probe = facts.probe
    if probe.error is not None:
        mend = probe.hint.rpartition("Run: ")[2] if probe.hint else None
        yield Finding("loading", "missing", probe.error, "no device can be used", mend)
    if probe.died is not None:
        yield Finding(
            "loading",
            "missing",
            f"a process that loaded the stack and tried the devices died ({probe.died})",
            f"it last said: {probe.stderr}" if probe.stderr else "a driver or library is broken",
            _retry_command(facts),
        )
    for library in probe.libraries:
        if library.error is not None:
            owner = shipped_by(library.name)
            yield Finding(
                "libraries",
                "warning",
                f"{library.name} could not be loaded: {library.error}",
                "functions that need it (for oneMKL's: dpnp's linear algebra) fail when they are used",
                facts.generation.install_command((owner,)) if owner else None,
            )


def _retry_command(facts: Facts) -> str:
    """Return the command that retries without the unfinished device, or the install command if none had begun."""
    unfinished = next((device for device in facts.probe.devices if device.trusted is None), None)
    if unfinished is None:
        return facts.generation.install_command()
    kind = "fpga" if unfinished.kind == "accelerator" else unfinished.kind
    return f"ONEAPI_DEVICE_SELECTOR='!{unfinished.backend}:{kind}' python -m syclsched doctor"


def judge_devices(facts: Facts) -> Iterator[Finding]:
    """Report the devices shown, with their verdicts."""
    probe = facts.probe
    if not probe.devices and probe.error is None:
        yield Finding(
            "devices",
            "missing",
            "the runtime shows no device",
            "nothing can be run; graphs can be planned and simulated for other platforms",
            _fix_no_devices(facts),
        )
    for device in probe.devices:
        label = f"{device.name} ({device.backend} {device.kind}, driver {device.driver})"
        if device.trusted:
            yield Finding("device", "ok", f"{label}: gave all known answers")
        elif not device.has_usm:
            yield Finding("device", "info", f"{label}: has no unified shared memory, so it is refused for work")
            continue
        elif device.trusted is None:
            yield Finding("device", "missing", f"{label}: its check did not end", "it is refused for work")
        else:
            yield Finding(
                "device",
                "missing",
                f"{label}: {device.reason}",
                "it is refused for work: what it computes cannot be relied on",
                _fix_untrusted(facts),
            )
        for reason in device.skipped:
            yield Finding("device", "info", f"{label}: not tried, {reason}")
        for refusal in device.refusals:
            yield Finding("device", "info", f"{label}: not used there, {refusal}")


def judge_drivers(facts: Facts) -> Iterator[Finding]:
    """Report the OpenCL drivers that vendor files or the user name: those left out, and devices that SYCL omits."""
    shown = {(device.name, device.driver) for device in facts.probe.devices}
    for driver in facts.named_drivers:
        label = f"{driver.library} (named by {driver.named_by})"
        if driver.crashes:
            yield Finding(
                "OpenCL drivers",
                "warning",
                f"{label} is left out: {driver.failure}",
                "its devices cannot be used; every process that loads it would end in this way",
                f"reinstall or remove the package of {driver.named_by}; in a container, mount /proc and /sys",
            )
        elif driver.failure is not None:
            yield Finding("OpenCL drivers", "info", f"{label} does not load: {driver.failure}")
        elif not driver.devices:
            yield Finding("OpenCL drivers", "info", f"{label} has no device")
        for device in driver.devices:
            if (device.name, device.driver) in shown:
                yield Finding("OpenCL drivers", "ok", f"{label}: {device.name}")
            else:
                what = f"{device.name} ({device.platform}, driver {device.driver}) of {label}"
                yield Finding(
                    "OpenCL drivers",
                    "info",
                    f"{what} is not shown by the SYCL runtime: {_why_not_shown(device, facts)}",
                )


def _why_not_shown(device: DriverDevice, facts: Facts) -> str:
    if device.platform in _ADAPTERS:
        return f"it shows this hardware through its {_ADAPTERS[device.platform]} adapter only"
    if selector := facts.users_variables.get("ONEAPI_DEVICE_SELECTOR"):
        return f"ONEAPI_DEVICE_SELECTOR={selector} may hide it"
    lacks = ([] if device.spirv else ["does not take SPIR-V"]) + (
        [] if device.usm else ["has no unified shared memory"]
    )
    return f"it {' and '.join(lacks)}" if lacks else f"the runtime does not give a reason ({device.version})"


def _fix_no_devices(facts: Facts) -> str:
    if "ONEAPI_DEVICE_SELECTOR" in facts.users_variables:
        return "unset ONEAPI_DEVICE_SELECTOR"
    if "OCL_ICD_FILENAMES" in facts.users_variables:
        return "unset OCL_ICD_FILENAMES"
    return facts.generation.install_command()


def _fix_untrusted(facts: Facts) -> str:
    variables = [name for name in facts.users_variables if name.startswith("CL_CONFIG_")]
    if variables:
        return "unset " + " ".join(variables)
    return "export CL_CONFIG_CPU_VECTORIZER_MODE=1"


def judge_gpu(facts: Facts) -> Iterator[Finding]:
    """Report whether the machine's GPUs may be opened and are shown by the runtime."""
    for node in facts.render_nodes:
        if not node.readable:
            yield Finding(
                "GPU",
                "missing",
                f"{node.path} is there but may not be opened",
                f"it belongs to the group {node.group}, which you are not in: the GPU does not show up as a device",
                f"sudo usermod -aG {node.group} $USER && newgrp {node.group}",
            )
    readable = [node for node in facts.render_nodes if node.readable]
    shown = any(device.kind == "gpu" for device in facts.probe.devices)
    if any(is_intel(node) for node in readable) and not shown:
        yield Finding(
            "GPU",
            "warning",
            "an Intel GPU is there and the SYCL runtime does not show it",
            "its compute driver (Level Zero or OpenCL) is missing",
            "sudo apt-get install libze1 intel-opencl-icd  # where the distribution lacks them or the GPU is newer: "
            "libze-intel-gpu1 and intel-opencl-icd of https://dgpu-docs.intel.com",
        )
    backends = {device.backend for device in facts.probe.devices}
    for vendor, adapter in sorted({_PLUGINS[node.vendor] for node in readable if node.vendor in _PLUGINS}):
        if adapter.lower() not in backends:
            yield Finding(
                "GPU",
                "warning",
                f"a GPU of {vendor} is there and the SYCL runtime does not show it",
                f"the runtime's packages have no {adapter} adapter",
                f"install {vendor}'s own driver and Codeplay's oneAPI plugin for {vendor} GPUs, of the release "
                f"{facts.versions.get('intel-sycl-rt', 'of intel-sycl-rt')}, and add the folder of "
                f"its library (libpi_{adapter.lower()}.so or libur_adapter_{adapter.lower()}.so) to LD_LIBRARY_PATH: "
                "https://developer.codeplay.com",
            )
    if not facts.render_nodes:
        yield Finding("GPU", "info", "none (/dev/dri has no render node)")


def judge_load(facts: Facts) -> Iterator[Finding]:
    """Report whether other programs keep the processors busy."""
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
    """Report whether the cache and data folders are writable and have space."""
    for folder in facts.folders:
        if not folder.writable:
            yield Finding(
                "folders",
                "warning",
                f"{folder.path} cannot be written to",
                f"nothing can be kept in the folder for {folder.purpose}",
                f'export {folder.variable}="$(mktemp -d)"',
            )
        elif folder.untrusted is not None:
            yield Finding(
                "folders",
                "warning",
                f"nothing is loaded from {folder.path}: {folder.untrusted}",
                f"all in the folder for {folder.purpose} is made anew by every process, or missing",
                f'export {folder.variable}="$(mktemp -d)"',
            )
        elif folder.free_bytes is not None and folder.free_bytes < folder.needed_bytes:
            yield Finding(
                "folders",
                "warning",
                f"{folder.path} has {folder.free_bytes / 1e6:.0f} MB of free space",
                f"the folder for {folder.purpose} needs up to {folder.needed_bytes / 1e6:.0f} MB",
                f'export {folder.variable}="$(mktemp -d)"',
            )
        else:
            yield Finding("folders", "ok", f"{folder.path}: {folder.purpose}")
