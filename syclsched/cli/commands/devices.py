# SPDX-License-Identifier: Apache-2.0
"""``syclsched devices``: the SYCL devices of this machine as a table, or as a platform in JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from syclsched.cli.documents import DevicesDocument, print_document
from syclsched.cli.terminal import output
from syclsched.model.platform import Device, Platform
from syclsched.model.text.units import plural
from syclsched.model.views.device_rows import float_names, format_gib, partition_text, product_name, sharing_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

#: Length of CPU drivers' versions; a narrower column would wrap all of them.
_DRIVER_WIDTH = 21


def devices_command(
    json_output: Annotated[bool, typer.Option("--json", help="Print the platform as JSON.")] = False,
    select: Annotated[
        str | None,
        typer.Option(
            "--select",
            metavar="SELECTOR",
            help="ONEAPI_DEVICE_SELECTOR syntax ('level_zero:0;opencl:cpu', '!*:fpga') "
            "or names and kinds ('cpu,accelerator', 'cpu.0').",
        ),
    ] = None,
    sub_devices: Annotated[
        str | None,
        typer.Option(
            "--sub-devices",
            metavar="HOW",
            help="Split devices: '2' (parts), 'units:4' (compute units each), numa, l4, l3, l2, l1 or next.",
        ),
    ] = None,
    show_all: Annotated[
        bool, typer.Option("--all", help="Include devices that failed the known-answer test and are not used.")
    ] = False,
) -> None:
    """List the SYCL devices of this machine, with the results of their known-answer tests and shared memories.

    [bold]syclsched devices --all[/bold] includes devices that are not used, with the reason.

    [bold]syclsched devices --select cpu --sub-devices 2[/bold] shows the halves of the CPU device.
    """
    from syclsched.devices import discover, parse_sub_devices

    how = None if sub_devices is None else parse_sub_devices(sub_devices)
    platform = discover(selector=select, sub_devices=how, include_untrusted=True)
    hidden: tuple[Device, ...] = ()
    if not show_all:
        hidden = tuple(d for d in platform.compute_devices if d.distrust is not None)
        if hidden:
            platform = discover(selector=select, sub_devices=how)
    if json_output:
        from syclsched.model.text.json_serialisation import jsonable

        print_document(DevicesDocument(jsonable(platform)))
        return
    show(platform, hidden, output())


def show(platform: Platform, hidden: Sequence[Device], console: Console) -> None:
    """Print a platform's devices as a table, and the untrusted ones below it."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("device\n[dim]backend[/]", no_wrap=True)
    table.add_column("product\n[dim]driver[/]", min_width=_DRIVER_WIDTH, overflow="fold")
    table.add_column("units\nmemory", justify="right", no_wrap=True)
    table.add_column("floats", no_wrap=True)
    table.add_column("trust", no_wrap=True)
    table.add_column("shares\nmemory", overflow="fold")
    for device in platform.devices:
        table.add_row(*_row(platform, device))
    console.print(table)
    console.print()
    count = plural(len(platform.compute_devices), "device")
    console.print(Text(f"{count} and the host. All have integers of 8 to 64 bits, and bool.", style="dim"))
    for device in (*(d for d in platform.devices if d.distrust), *hidden):
        reason = f" ({product_name(device)}) gets no work: {device.distrust}"
        console.print(Text.assemble((device.name, "bold red"), reason))


def _row(platform: Platform, device: Device) -> tuple[RenderableType, ...]:
    from rich.text import Text

    product = Text(product_name(device))
    for detail in (device.driver_version, partition_text(device.partition)):
        if detail:
            product.append(f"\n{detail}", style="dim")
    trusted = Text("")
    if not device.is_host:
        trusted = Text("yes", "green") if device.distrust is None else Text("no", "bold red")
    return (
        Text.assemble((device.name, "bold"), ("" if device.is_host else f"\n{device.backend}", "dim")),
        product,
        Text(f"{device.compute_units}\n{format_gib(device.global_memory_bytes)}"),
        Text("\n".join(float_names(device.dtypes))),
        trusted,
        Text(sharing_text(platform, device)),
    )
