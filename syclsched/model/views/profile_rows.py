# SPDX-License-Identifier: Apache-2.0
"""Table rows of device profiles: numbers with three digits, prefixed units and spreads."""

from __future__ import annotations

from collections.abc import Iterator

from syclsched.model.profile import DeviceProfile, LinkFit, PairProfile, Quantity

_PREFIXES = (
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "µ"),
    (1e-9, "n"),
)

TableRow = tuple[str, str, str, str, str]


def scaled(value: float, unit: str) -> tuple[str, str]:
    """Return a number with three significant digits and its unit with an SI prefix."""
    if not unit or value == 0:
        return f"{value:.3g}", unit
    for factor, prefix in _PREFIXES:
        # Values of 999.5 and more would print as 1e+03.
        if value >= 0.9995 * factor:
            return f"{value / factor:.3g}", prefix + unit
    return f"{value / 1e-9:.3g}", "n" + unit


def with_unit(value: float, unit: str) -> str:
    """Format a number with its unit."""
    return " ".join(scaled(value, unit)).rstrip()


def _row(label: str, quantity: Quantity | None, unit: str) -> Iterator[TableRow]:
    if quantity is None:
        return
    number, prefixed = scaled(quantity.value, unit)
    if quantity.samples == 0:
        yield label, number, prefixed, "", "published"
        return
    spread = f"±{quantity.mad / quantity.value:.1%}" if quantity.value and unit else f"±{quantity.mad:.2f}"
    spikes = f" ({quantity.spikes})" if quantity.spikes else ""
    yield label, number, prefixed, spread, f"{quantity.samples}{spikes}"


def _link_rows(label: str, link: LinkFit) -> Iterator[TableRow]:
    sampled = f"{len(link.points)} sizes" if link.points else "published"
    fit = f"±{link.residual:.0%}" if link.points else ""
    yield (f"{label} latency", *scaled(link.latency_s, "s"), fit, sampled)
    yield (f"{label} bandwidth", *scaled(link.bandwidth_bytes_per_s, "B/s"), fit, sampled)


def profile_rows(profile: DeviceProfile) -> Iterator[TableRow]:
    """Yield the rows of a profile's table: label, number, unit, spread (MAD or fit residual) and samples."""
    costs = profile.launch
    yield from _row("submission", costs.submission_s, "s")
    yield from _row("launch latency", costs.latency_s, "s")
    yield from _row("kernel in a chain", costs.chain_task_s, "s")
    yield from _row("kernel across two queues", costs.cross_queue_s, "s")
    yield from _row("first launch (JIT)", costs.jit_first_launch_s, "s")
    yield from _row("instruction of a run, host", costs.dispatch_s, "s")
    yield from _row("hand-off, device and host", costs.handoff_s, "s")
    for dtype, flops in profile.peak_flops.items():
        yield from _row(f"{dtype} multiply-add", flops, "op/s" if dtype.startswith("int") else "FLOP/s")
    yield from _row("triad bandwidth", profile.triad_bandwidth_bytes_per_s, "B/s")
    for size, bandwidth in profile.bandwidth_curve:
        yield (f"  triad over {_binary(size)}", *scaled(bandwidth, "B/s"), "", "")
    for direction, link in profile.transfers.items():
        yield from _link_rows(f"copy {direction}", link)
    for kind, usm in profile.usm.items():
        yield from _row(f"USM {kind}, allocate 1 MiB", usm.allocation_s, "s")
        yield from _row(f"USM {kind}, triad", usm.bandwidth_bytes_per_s, "B/s")
        yield from _row(f"USM {kind}, read", usm.read_bandwidth_bytes_per_s, "B/s")
    yield from _row("slow-down, kernel beside kernel", profile.overlap.kernel_kernel, "")
    yield from _row("slow-down, copy beside kernel", profile.overlap.copy_kernel, "")
    yield "lanes worth using", str(profile.identity.lanes), "", "", ""
    yield from _row("power, idle", profile.power.idle_w, "W")
    yield from _row("power, busy", profile.power.busy_w, "W")


def pair_row(pair: PairProfile) -> tuple[str, str, str, str]:
    """Return the row of a device pair: event latency, copy latency, copy bandwidth and slow-down."""
    link = pair.link
    return (
        with_unit(pair.event_latency_s.value, "s") if pair.event_latency_s is not None else "-",
        with_unit(link.latency_s, "s") if link is not None else "-",
        with_unit(link.bandwidth_bytes_per_s, "B/s") if link is not None else "-",
        f"{pair.interference.value:.2f} ±{pair.interference.mad:.2f}" if pair.interference is not None else "-",
    )


def _binary(nbytes: int) -> str:
    for factor, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if nbytes >= factor:
            return f"{nbytes / factor:.3g} {unit}"
    return f"{nbytes} B"
