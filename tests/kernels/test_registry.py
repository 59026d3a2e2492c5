# SPDX-License-Identifier: Apache-2.0
"""The registry of operations: their properties, and independence of SYCL packages."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syclsched import kernels
from syclsched.errors import ArgumentError
from syclsched.kernels.common import block_launch, group_size, line_launch
from syclsched.kernels.nn.pooling.pool import pool
from syclsched.model.operation import DeviceLimits, Operation, Signature

ROOT = Path(__file__).resolve().parents[2]
ALL = [kernels.get(name) for name in kernels.names()]


def shaped(operation: Operation, dtype: str = "float64") -> Signature:
    """Return a small valid signature."""
    shapes = {
        "status": (1,),
        "b": (6,) if operation.name == "dense" else (6, 6),
        **{p.name: (6, 6) for p in operation.arrays if p.name not in ("status", "b")},
    }
    named = {p.name: shapes[p.name] for p in operation.arrays}
    scalars = {p.name: 1 for p in operation.parameters if not p.is_array}
    return Signature(named, {name: "int32" if name == "status" else dtype for name in named}, scalars)


def test_importing_loads_no_sycl_package() -> None:
    code = (
        "import sys, syclsched.kernels as k; [k.get(n) for n in k.names()];"
        "bad = {'dpctl', 'dpnp', 'numba', 'numba_dpex', 'scipy'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("operation", ALL, ids=lambda each: each.name)
def test_table_of_operations(operation: Operation) -> None:
    rows = [
        [cell.strip() for cell in line.strip("| ").split(" | ")]
        for line in (ROOT / "docs" / "reference" / "operations.md").read_text().splitlines()
        if line.startswith(f"| `{operation.name}` |")
    ]
    [(_, _, parameters, _, dtypes)] = rows
    said = re.findall(r"`(\w+)(?:=\w+)?`", parameters.replace("with `beta=0`", ""))
    assert said == [p.name for p in operation.parameters]
    every = {*kernels.get("copy").parameters[0].dtypes}
    wanted = {"all": every, "all but bool": every - {"bool"}}.get(dtypes, {*dtypes.split(", ")})
    assert {*operation.parameters[0].dtypes} == wanted


def test_an_unknown_name_suggests_known_names() -> None:
    with pytest.raises(ArgumentError, match=r"'gem'.*gemm"):
        kernels.get("gem")


@pytest.mark.parametrize("operation", ALL, ids=lambda each: each.name)
def test_every_operation_runs_on_devices_and_on_the_host(operation: Operation) -> None:
    kinds = {each.kind for each in operation.implementations}
    assert {"python", "opencl-c", "host"} <= kinds
    names = [each.name for each in operation.implementations]
    assert len(names) == len(set(names))
    for implementation in operation.implementations:
        assert (implementation.launch is not None) == implementation.is_kernel
        assert 0 < implementation.efficiency <= 1


@pytest.mark.parametrize("operation", ALL, ids=lambda each: each.name)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_work_is_positive_and_single_precision_moves_fewer_bytes(operation: Operation, dtype: str) -> None:
    assert operation.check is not None
    assert operation.check(shaped(operation)) is None
    work = operation.work(shaped(operation, dtype))
    assert work.dtype == dtype
    assert work.bytes > 0
    assert work.flops >= 0
    assert operation.work(shaped(operation, "float32")).bytes < operation.work(shaped(operation, "float64")).bytes


def test_work_of_a_tiled_factorisation_is_that_of_the_whole() -> None:
    n, tiles = 64, 4
    t = n // tiles

    def flops(name: str, **shapes: tuple[int, ...]) -> float:
        return kernels.get(name).work(Signature(shapes, dict.fromkeys(shapes, "float64"))).flops

    square = (t, t)
    total = (
        tiles * flops("potrf", a=square, status=(1,))
        + tiles * (tiles - 1) / 2 * (flops("trsm", a=square, l=square) + flops("syrk", c=square, a=square))
        + tiles * (tiles - 1) * (tiles - 2) / 6 * flops("gemm", c=square, a=square, b=square)
    )
    assert total == pytest.approx(n**3 / 3 + n**2 / 2 + n / 6)


@pytest.mark.parametrize("operation", [each for each in ALL if len(each.arrays) > 1], ids=lambda each: each.name)
def test_shapes_that_do_not_fit_are_refused(operation: Operation) -> None:
    assert operation.check is not None
    good = shaped(operation)
    for name in good.shapes:
        odd = tuple(size + 1 if axis == 0 else size + 2 for axis, size in enumerate(good.shapes[name]))
        message = operation.check(Signature({**good.shapes, name: odd}, good.dtypes, good.scalars))
        assert message
        assert str(odd).strip("()") in message or str(odd[0]) in message


def test_an_unknown_activation_is_refused() -> None:
    good = shaped(kernels.get("dense"))
    assert "activation" in str(kernels.get("dense").check(Signature(good.shapes, good.dtypes, {"activation": 2})))  # type: ignore[misc]


@given(
    size=st.sampled_from([1, 8, 64, 256, 1024, 8192]),
    units=st.integers(1, 128),
    items=st.integers(1, 10_000),
    rows=st.integers(1, 50),
)
def test_index_spaces_cover_the_work_in_whole_groups(size: int, units: int, items: int, rows: int) -> None:
    limits = DeviceLimits(size, units, 32768)
    for launch, lines in ((line_launch(limits, items), 1), (block_launch(limits, rows, items), rows)):
        assert launch.local_range is not None
        (total,), (group,) = launch.global_range, launch.local_range
        assert 1 <= group <= size
        assert total % (group * lines) == 0
        assert lines * items <= total < lines * (items + group)
    assert group_size(limits, items, rows=rows) & (group_size(limits, items, rows=rows) - 1) == 0


def test_operations_have_the_recipe_of_their_construction() -> None:
    for name in kernels.names():
        assert kernels.get(name).recipe == (name, {})
    pooling = pool("max", [2, 2], strides=[2, 2])
    assert pooling is pool("max", (2, 2), (2, 2)) and pooling.recipe is not None
    name, arguments = pooling.recipe
    assert name == "pool" and arguments["mode"] == "max" and arguments["channels_last"] is False
