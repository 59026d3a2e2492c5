# SPDX-License-Identifier: Apache-2.0
"""``syclsched kernels``: make and show packs of compiled Python kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from syclsched.cli.documents import KernelEntry, PackDocument, print_document
from syclsched.cli.output_files import check_outputs, write_text
from syclsched.cli.terminal import notices, warn
from syclsched.errors import ArgumentError
from syclsched.model.text.units import plural

kernels_app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="rich")


@kernels_app.callback()
def _kernels() -> None:
    """Packs of compiled Python kernels, for programs that are to start without compiling.

    A pack has the SPIR-V of kernels written in Python (syclsched.kernel), by their content: code, constants, types. A
    process that loads it imports no compiler for them. [bold]syclsched kernels build program.py --out my.pack[/bold],
    then in the program [bold]syclsched.load_pack("my.pack")[/bold], or without a change of it
    [bold]SYCLSCHED_KERNEL_PACKS=my.pack python program.py[/bold].
    """


@kernels_app.command("build")
def build_command(
    source: Annotated[
        str,
        typer.Argument(
            help="A Python program (.py), which is run; or a ready graph or an ONNX model, whose kernels "
            "are compiled for every device."
        ),
    ],
    arguments: Annotated[list[str] | None, typer.Argument(help="Arguments of the program, after --.")] = None,
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The pack to write.")],
) -> None:
    """Write the Python kernels of a program, graph or model to a pack.

    [bold]syclsched kernels build program.py --out my.pack -- --size 100[/bold] runs the program with its arguments and
    collects every Python kernel that it compiles, or finds compiled. Use it on data like those of later runs: a kernel
    is compiled for the types and dimensions of its arguments, not for their sizes.

    [bold]syclsched kernels build cholesky --out cholesky.pack[/bold]

    A pack fits every machine with the same minor version of Python and the same compiler of kernels. A kernel whose
    code was changed since is compiled as if there were no pack.
    """
    from syclsched import oneapi
    from syclsched.cli.requests.kernel_recording import record_graph, record_program
    from syclsched.devices.programs.python_kernels.spirv_packs import pack_text

    check_outputs(out)
    given = arguments or []
    found = record_program(source, given) if Path(source).suffix == ".py" else record_graph(source, given)
    for name in sorted(found.without_key):
        warn(f"kernel {name} is left out: it refers to values that cannot be told apart by content")
    if not found.kernels:
        raise ArgumentError("it uses no Python kernel that can be packed", where=source)
    write_text(out, pack_text(found.kernels, oneapi.load().versions))
    notices().print(f"{plural(len(found.kernels), 'kernel')} written to {out}", markup=False)


@kernels_app.command("show")
def show_command(
    pack: Annotated[Path, typer.Argument(help="A pack.")],
    json_output: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List the kernels of a pack: the bytes of their SPIR-V, and their names.

    [bold]syclsched kernels show my.pack[/bold]
    """
    from syclsched.devices.programs.python_kernels.spirv_packs import read_pack

    kernels = sorted(read_pack(pack).values(), key=lambda module: (module.kernel_name, module.code))
    if json_output:
        print_document(PackDocument([KernelEntry(each.kernel_name, len(each.code)) for each in kernels]))
        return
    for each in kernels:
        typer.echo(f"{len(each.code):>8,} bytes  {each.kernel_name}")
    typer.echo(plural(len(kernels), "kernel"))
