# SPDX-License-Identifier: Apache-2.0
"""``syclsched profile``: measure the devices of this machine and store their profiles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syclsched.cli.requests.device_profiles import compare_kernels, measure
from syclsched.cli.terminal import notices, output
from syclsched.errors import MeasurementError, SelectionError
from syclsched.interrupts import INTERRUPTED
from syclsched.model.views.profile_rows import pair_row, profile_rows

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.model.platform import Platform
    from syclsched.model.profile import DeviceProfile, PairProfile
    from syclsched.profiling import ProfileStore
    from syclsched.profiling.session import SessionResult


def profile_command(
    quick: Annotated[bool, typer.Option("--quick", help="In a third of the time, with wider spreads.")] = False,
    refresh: Annotated[
        bool,
        typer.Option(
            "--refresh", help="Measure only what is missing, interrupted, of a busy machine, or older than 90 days."
        ),
    ] = False,
    device: Annotated[
        str | None,
        typer.Option(
            "--device", metavar="SELECTOR", help="Only these: names and kinds ('cpu,accelerator'), or a SYCL selector."
        ),
    ] = None,
    sub_devices: Annotated[
        str | None,
        typer.Option("--sub-devices", metavar="HOW", help="Split devices first: '2' (parts), numa, l3, ..."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Also write all profiles into one JSON file.")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print the profiles as JSON, not as a table.")] = False,
    export: Annotated[
        str | None,
        typer.Option(
            "--export",
            metavar="NAME",
            help="Write the profile of a single device to NAME.json, in the format of the shipped profiles.",
        ),
    ] = None,
    store_folder: Annotated[
        Path | None,
        typer.Option("--store", metavar="FOLDER", help="Store profiles here, not in the user's data folder."),
    ] = None,
) -> None:
    """Measure every SYCL device: launches, FLOP/s, bandwidth, copies, overlap; Ctrl-C keeps finished measurements.

    On a CPU networks are run by oneDNN and by kernels, too, and kernels of common layers are stored: ONNX models then
    choose between them without runs of their own, and compile few.

    [bold]syclsched profile[/bold] takes some minutes; [bold]--quick[/bold] a third of that.

    [bold]syclsched profile --device cpu --export my-cpu[/bold] writes my-cpu.json, which --platform takes elsewhere.
    """
    from syclsched.api.device_profiles import save_profiles
    from syclsched.devices import discover, open_devices, parse_sub_devices
    from syclsched.profiling.storage.profile_store import ProfileStore, data_folder

    how = None if sub_devices is None else parse_sub_devices(sub_devices)
    platform = discover(selector=device, sub_devices=how)
    if export is not None and len(platform.compute_devices) != 1:
        names = ", ".join(d.name for d in platform.compute_devices)
        raise SelectionError(
            f"a single device can be exported, there are {names}", where="--export", hint="Choose one with --device"
        )
    errors = notices()
    store = ProfileStore(data_folder() if store_folder is None else store_folder)
    wanted = _wanted(platform, store, errors) if refresh else None
    if wanted is not None and not wanted:
        return
    with open_devices(platform) as live:
        result = measure(platform, live, quick, errors, wanted)
    saved = save_profiles(result, store, forget=store_folder is None and not refresh)
    if output is not None:
        write_set(result, output)
        saved.append(f"written to {output}")
    if export is not None and result.devices:
        path = export_profile(result.devices[0], export)
        saved.append(f"exported to {path}")
    _print(result, platform, saved, json_output, errors)
    if not result.complete:
        raise typer.Exit(INTERRUPTED)
    if store_folder is None and sub_devices is None:
        measured = {profile.key for profile in result.devices}
        for line in compare_kernels([d for d in platform.compute_devices if d.key in measured], errors):
            errors.print(line, style="dim", markup=False)


def _wanted(platform: Platform, store: ProfileStore, errors: Console) -> frozenset[frozenset[str]]:
    """Return the devices and pairs of devices to measure again, by their names, and print why."""
    import datetime

    from syclsched.profiling.storage.freshness import stale_subjects

    found = stale_subjects(platform, store, datetime.datetime.now(datetime.timezone.utc))
    for names, why in found.items():
        errors.print(f"{' + '.join(sorted(names))}: {why}", markup=False)
    if not found:
        errors.print("All profiles are complete, of a quiet machine, and not old.")
    return frozenset(found)


def write_set(result: SessionResult, path: Path) -> None:
    """Write all profiles into one file."""
    from syclsched.profiling.storage.files import write_file

    write_file(path, _set(result))


def _set(result: SessionResult) -> Any:
    from syclsched.profiling.storage.files import ProfileSet

    if not result.devices:
        raise MeasurementError(
            "no device was measured far enough for a profile: " + ("; ".join(result.notes) or "no reason known"),
            hint="Run it again without interrupting it",
        )
    return ProfileSet(result.devices, result.pairs)


def export_profile(profile: DeviceProfile, name: str) -> Path:
    """Write a profile in the shipped format, with its name as key instead of the machine's."""
    from syclsched.profiling.storage.files import write_file

    path = Path(name if name.endswith(".json") else f"{name}.json")
    write_file(path, replace(profile, identity=replace(profile.identity, key=path.stem)))
    return path


def _print(result: SessionResult, platform: Platform, saved: list[str], as_json: bool, errors: Console) -> None:
    if as_json:
        from syclsched.model.text.json_serialisation import to_json

        print(to_json(_set(result)))
    else:
        console = output()
        for profile in result.devices:
            _show_profile(profile, console)
        _show_pairs(result.pairs, {d.key: d.name for d in platform.compute_devices}, console)
    for line in (*result.notes, *saved):
        errors.print(line, style="dim", markup=False)


def _show_profile(profile: DeviceProfile, console: Console) -> None:
    """Print a device profile as a table."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    title = f"{profile.identity.name}  ({profile.identity.kind}, {profile.identity.backend})"
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading, justify in (("number", "left"), ("median", "right"), ("unit", "left"), ("spread", "right")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    table.add_column("samples (spikes)", justify="right")
    for row in profile_rows(profile):
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
    if profile.provenance.busy:
        console.print("The machine was busy: the device is faster than these numbers.", style="yellow")
    if not profile.provenance.complete:
        console.print("Interrupted: missing numbers were not measured.", style="yellow")


def _show_pairs(pairs: tuple[PairProfile, ...], names: dict[str, str], console: Console) -> None:
    """Print the measurements between devices as a table."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    if not pairs:
        return
    table = Table(title=Text("Between devices"), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("from", "to", "event", "copy latency", "copy bandwidth", "slow-down together"):
        table.add_column(heading, justify="left" if heading in ("from", "to") else "right")
    for pair in pairs:
        table.add_row(names.get(pair.first, pair.first), names.get(pair.second, pair.second), *pair_row(pair))
    console.print(table)
