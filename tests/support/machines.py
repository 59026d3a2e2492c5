# SPDX-License-Identifier: Apache-2.0
"""Facts of described machines, as their runtimes report them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from syclsched.devices.discovery.device_facts import DeviceFacts, HostFacts
from syclsched.devices.discovery.subdevices import SubDevices, partition_error, unit_counts
from syclsched.errors import SelectionError
from syclsched.model.platform import Partition

GIB = 1 << 30
USM = ("usm_device_allocations", "usm_host_allocations", "usm_shared_allocations")

HOST_FACTS = HostFacts(processor="A Processor (6/85/7)", cores=8, memory_bytes=64 * GIB)


def device(backend: str, kind: str, name: str, index: int = 0, number: int = 0, **changes: Any) -> DeviceFacts:
    """Return facts of a root device: ``index`` within its backend, ``number`` within backend and kind."""
    facts = DeviceFacts(
        backend=backend,  # type: ignore[arg-type]
        kind=kind,  # type: ignore[arg-type]
        name=name,
        vendor="Vendor",
        driver_version="1.0",
        filter_string=f"{backend}:{kind}:{number}",
        backend_index=index,
        platform=f"{backend} of {kind}",
        compute_units=8,
        max_work_group_size=1024,
        global_memory_bytes=16 * GIB,
        local_memory_bytes=65536,
        aspects=("fp16", "fp64", *USM),
    )
    return replace(facts, **changes)


CPU = device("opencl", "cpu", "Intel(R) Xeon(R) Processor", index=0, compute_units=16)
POCL = device(
    "opencl",
    "cpu",
    "cpu-haswell-A Processor",
    index=5,
    number=1,
    vendor="AuthenticAMD",
    driver_version="6.0",
    platform="Portable Computing Language | OpenCL 3.0 PoCL 6.0",
    compute_units=16,
)
EMULATOR = device(
    "opencl", "accelerator", "Intel(R) FPGA Emulation Device", index=1, aspects=("fp64", *USM), compute_units=16
)
OCL_GPU0 = device("opencl", "gpu", "Intel(R) Arc(TM) A770 Graphics", index=2, pci_device=0x56A0)
OCL_GPU1 = replace(OCL_GPU0, backend_index=3, filter_string="opencl:gpu:1")
ZE_GPU0 = device(
    "level_zero", "gpu", "Intel(R) Arc(TM) A770 Graphics [0x56a0]", pci_device=0x56A0, global_memory_bytes=15 * GIB
)
ZE_GPU1 = replace(ZE_GPU0, backend_index=1, filter_string="level_zero:gpu:1")
CUDA_GPU = device("cuda", "gpu", "NVIDIA A100-SXM4-40GB", global_memory_bytes=40 * GIB)
HIP_GPU = device("hip", "gpu", "AMD Instinct MI250X", global_memory_bytes=64 * GIB)
INTEGRATED = device("level_zero", "gpu", "Intel(R) Iris(R) Xe Graphics", pci_device=0x9A49, integrated=True)

#: Two cards, each under two backends, between a CPU device and an emulator.
WORKSTATION = (CPU, EMULATOR, OCL_GPU0, OCL_GPU1, ZE_GPU0, ZE_GPU1)


def split_facts(root: DeviceFacts, how: SubDevices) -> tuple[DeviceFacts, ...]:
    """Divide facts as a driver without affinity domains partitions a device."""
    reason = "no affinity domains" if how.method == "affinity" else partition_error(root, how)
    if reason is not None:
        raise SelectionError(reason, where=root.name)
    if how.method == "equally":
        units = int(how.argument)
        shares: tuple[int, ...] = (units,) * (root.compute_units // units)
    else:
        shares = unit_counts(root.compute_units, int(how.argument))
    return tuple(
        replace(root, compute_units=share, partition=Partition(how.method, how.argument, index))
        for index, share in enumerate(shares)
    )
