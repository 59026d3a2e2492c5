# SPDX-License-Identifier: Apache-2.0
"""Cost model: seconds of tasks and copies, from measurements where they exist, else from the roofline."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from syclsched.costs.capability import unsupported
from syclsched.costs.estimate import Estimate, relative_uncertainty, sequence_estimate, uncertainty_of
from syclsched.costs.history import History, history_key, known_refusals, measured_seconds
from syclsched.costs.rates import Rates, rates_of
from syclsched.costs.roofline import checked_efficiency, checked_work, roofline_seconds, working_set
from syclsched.costs.stated import stated_seconds
from syclsched.errors import CapabilityError, EmptyPlatformError
from syclsched.model.operation import Implementation, Operation, Signature
from syclsched.model.platform import Device, Platform
from syclsched.model.sequence import sequence_parts
from syclsched.model.task import Task

Choice = tuple[Implementation, Estimate]


@dataclass(slots=True)
class _CostClass:
    """Tasks of equal cost: one operation with one signature."""

    task: Task  # one of them
    best: dict[str, Choice | None] = field(default_factory=dict)  # by device key
    #: The last result of `CostModel.choices`, and the devices it was for.
    choices: tuple[Choice | None, ...] = ()
    devices: Sequence[Device] | None = None


class CostModel:
    """Predicted costs of tasks and copies on a platform.

    Graphs have thousands of tasks and few distinct signatures: every cost is computed once for each operation,
    signature and device, and cached.
    """

    def __init__(self, platform: Platform, history: History | None = None) -> None:
        self.platform = platform
        self._history = history
        self._refusals = known_refusals(history)
        self._classes: dict[object, _CostClass] = {}
        #: By identity of operation and signature, which many tasks share; the task keeps both alive.
        self._seen: dict[tuple[int, int], tuple[Task, _CostClass]] = {}
        #: By identity of operation, signature, implementation and device, which are kept alive here.
        self._supported: dict[tuple[int, int, int, int], tuple[str | None, tuple[object, ...]]] = {}
        self._rates: dict[str, Rates] = {}

    @property
    def has_refusals(self) -> bool:
        """Whether a device or a library refused any implementation when it was to be timed."""
        return bool(self._refusals)

    def supports(self, task: Task, implementation: Implementation, device: Device) -> str | None:
        """Return why ``device`` cannot run ``implementation`` of ``task``, or None if it can."""
        identity = id(task.operation), id(task.signature), id(implementation), id(device)
        known = self._supported.get(identity)
        if known is None:
            missing = unsupported(task, implementation, device)
            if missing is None and self._refusals and task.operation is not None and task.signature is not None:
                missing = self._refusal(task.operation, task.signature, implementation, device)
            known = missing, (task.operation, task.signature, implementation, device)
            self._supported[identity] = known
        return known[0]

    def refusals(self, task: Task, device: Device) -> Iterator[tuple[Implementation, str]]:
        """Yield the implementations of a task that the device or a library refused when they were to be timed."""
        if not self._refusals or task.operation is None or task.signature is None:
            return
        for implementation in task.operation.implementations:
            if unsupported(task, implementation, device) is None:
                reason = self._refusal(task.operation, task.signature, implementation, device)
                if reason is not None:
                    yield implementation, reason

    def task_seconds(self, task: Task, implementation: Implementation, device: Device) -> Estimate:
        """Return the predicted seconds of a task, whether or not the device supports it."""
        if task.operation is None or task.signature is None:
            return Estimate(0.0, "modelled")
        if implementation.kind == "cost-only":
            seconds, origin = stated_seconds(task.signature, device, self._rates_of(device))
            return Estimate(seconds, origin, uncertainty=uncertainty_of(origin))
        return self._seconds(task.operation, task.signature, implementation, device, f"task {task.name!r}")

    def best(self, task: Task, device: Device) -> Choice | None:
        """Return the fastest implementation of a task on a device."""
        return self._best(self._class_of(task), device)

    def on(self, platform: Platform) -> CostModel:
        """Return the cost model of another platform, with the same history."""
        return CostModel(platform, self._history)

    def launch_gap_s(self, implementation: Implementation, device: Device) -> float:
        """Return the seconds between a task and its successor on a lane that measurements of the task leave out."""
        return self._rates_of(device).launch_s if implementation.is_kernel and device.profile is not None else 0.0

    def choices(self, task: Task, devices: Sequence[Device]) -> tuple[Choice | None, ...]:
        """Return the `best` choice for each device; the same tuple for tasks of equal cost."""
        shared = self._class_of(task)
        if shared.devices is not devices:
            shared.devices, shared.choices = devices, tuple([self._best(shared, device) for device in devices])
        return shared.choices

    def require(self, task: Task, devices: Sequence[Device] | None = None) -> None:
        """Check that some device can run a task."""
        devices = self.platform.devices if devices is None else devices
        if not devices:
            raise EmptyPlatformError("there are no devices", where=f"platform {self.platform.name!r}")
        if task.operation is None or any(choice is not None for choice in self.choices(task, devices)):
            return
        lacking = [
            f"{device.name}: " + ", ".join(f"{i.name}: {self.supports(task, i, device)}" for i in implementations)
            for device in devices
            if (implementations := _relevant_implementations(task.operation, device))
        ]
        raise CapabilityError(
            f"no device can run {task.operation.name!r}: " + "; ".join(lacking),
            where=f"task {task.name!r}",
            hint="Give the operation an implementation for one of these devices, or plan for another device",
        )

    def copy_latency_and_slope(self, source_space: str, destination_space: str) -> tuple[float, float]:
        """Return latency and seconds per byte of a copy between two spaces."""
        route = self.platform.route(source_space, destination_space)
        return sum(link.latency_s for link in route), sum(1.0 / link.bandwidth_bytes_per_s for link in route)

    # --- inside -----------------------------------------------------------------------------------

    def _class_of(self, task: Task) -> _CostClass:
        identity = id(task.operation), id(task.signature)
        seen = self._seen.get(identity)
        if seen is None:
            key = _class_key(task)
            found = self._classes.get(key)
            if found is None:
                found = self._classes[key] = _CostClass(task)
            seen = self._seen[identity] = task, found
        return seen[1]

    def _best(self, shared: _CostClass, device: Device) -> Choice | None:
        if device.key not in shared.best:
            shared.best[device.key] = self._find_best(shared.task, device)
        return shared.best[device.key]

    def _find_best(self, task: Task, device: Device) -> Choice | None:
        best: Choice | None = None
        for implementation in task.operation.implementations if task.operation is not None else ():
            if self.supports(task, implementation, device) is not None:
                continue
            estimate = self.task_seconds(task, implementation, device)
            if best is None or estimate.seconds < best[1].seconds:
                best = (implementation, estimate)
        return best

    def _seconds(
        self, operation: Operation, signature: Signature, implementation: Implementation, device: Device, where: str
    ) -> Estimate:
        measured = self._measured(operation, signature, implementation, device)
        if measured is None and implementation.same_code_as:
            same = next((i for i in operation.implementations if i.name == implementation.same_code_as), None)
            as_long = None if same is None else self._measured(operation, signature, same, device)
            measured = None if as_long is None else replace(as_long, origin="scaled")
        if measured is not None:
            return measured
        rates = self._rates_of(device)
        parts = sequence_parts(operation, implementation, signature)
        if parts:
            each = [self._seconds(p.operation, p.signature, p.implementation, device, where) for p in parts]
            return sequence_estimate(each, rates, device)
        work = checked_work(operation, signature, where)
        efficiency = checked_efficiency(implementation, where)
        seconds = roofline_seconds(work, working_set(signature, work), efficiency, rates)
        return Estimate(seconds, rates.origin, uncertainty=uncertainty_of(rates.origin, busy=rates.busy))

    def _refusal(
        self, operation: Operation, signature: Signature, implementation: Implementation, device: Device
    ) -> str | None:
        """Return why an implementation, or one of its steps, was refused; None if it was not."""
        found = self._refusals.get(history_key(device.timing_key, operation, implementation, signature))
        for part in () if found is not None else sequence_parts(operation, implementation, signature):
            of_part = self._refusal(part.operation, part.signature, part.implementation, device)
            if of_part is not None:
                return f"{part.operation.name}: {of_part}"
        return found

    def _measured(
        self, operation: Operation, signature: Signature, implementation: Implementation, device: Device
    ) -> Estimate | None:
        if self._history is None:
            return None
        key = history_key(device.timing_key, operation, implementation, signature)
        quantity, factor, origin = measured_seconds(self._history, key), 1.0, "measured"
        if quantity is None and not operation.pure:
            # Only runs call it, with the same number of lanes: it is assumed to use one core.
            other = (
                replace(device, lanes=1, most_threads=0) if key.device_key != device.key else _with_most_lanes(device)
            )
            quantity, origin = measured_seconds(self._history, replace(key, device_key=other.timing_key)), "scaled"
        elif quantity is None and key.device_key != device.key:
            # Measured with all cores only: at worst, its libraries use them perfectly.
            quantity = measured_seconds(self._history, replace(key, device_key=device.key))
            factor, origin = device.compute_units / device.library_threads, "scaled"
        # A history is a file of the user's: ignore numbers that cannot be durations.
        if quantity is None or not 0.0 <= quantity.value < math.inf:
            return None
        if origin == "scaled":
            return Estimate(quantity.value * factor, origin, uncertainty_of(origin))
        seconds = quantity.value + self.launch_gap_s(implementation, device)
        return Estimate(seconds, "measured", relative_uncertainty(quantity))

    def _rates_of(self, device: Device) -> Rates:
        rates = self._rates.get(device.key)
        if rates is None:
            rates = self._rates[device.key] = rates_of(device, self.platform)
        return rates


def _with_most_lanes(device: Device) -> Device:
    """Return the host as the most lanes that it may have, and another device as it is."""
    return replace(device, lanes=device.most_lanes) if device.is_host and device.most_lanes else device


def _class_key(task: Task) -> object:
    signature = task.signature
    if signature is None:
        return None
    # By identity: hashing an operation is the slowest part, and the cost class keeps the operation alive.
    arrays = _items(signature.shapes), _items(signature.dtypes), signature.constants
    return id(task.operation), *arrays, _items(signature.scalars)


def _items(mapping: Mapping[str, object]) -> tuple[tuple[str, object], ...]:
    # 1 and 1.0 are equal as keys, but are different scalars to an operation.
    return tuple([(k, (v, type(v)) if isinstance(v, (int, float)) else v) for k, v in mapping.items()])


def _relevant_implementations(operation: Operation, device: Device) -> tuple[Implementation, ...]:
    """Leave out the obvious refusals: the host runs no kernels, and devices run no host functions."""
    relevant = tuple(i for i in operation.implementations if device.is_host == (i.kind == "host"))
    return relevant or operation.implementations
