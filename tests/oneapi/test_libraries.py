# SPDX-License-Identifier: Apache-2.0
"""The search for libraries: places and order, lazy binding, and global visibility."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from syclsched.oneapi import libraries
from syclsched.oneapi.libraries import LibraryGroup, Source
from syclsched.oneapi.stack_generation import CURRENT, NUMBA_DPEX


def source(label: str, *names: str) -> Source:
    return Source({name: (f"/{label}/{name}", label) for name in names})


def test_a_group_is_loaded_from_one_complete_source() -> None:
    group = LibraryGroup("g", ("liba.so.1", "libb.so.[0-9]"))
    half, whole = source("half", "liba.so.1"), source("whole", "liba.so.1", "libb.so.2")
    assert libraries.locate(group, [half, whole]) == (
        ("liba.so.1", ("/whole/liba.so.1", "whole")),
        ("libb.so.[0-9]", ("/whole/libb.so.2", "whole")),
    )


def test_a_group_without_complete_source_is_collected() -> None:
    group = LibraryGroup("g", ("liba.so", "libb.so", "libc.so"))
    found = dict(libraries.locate(group, [source("one", "libb.so"), source("two", "liba.so", "libb.so")]))
    assert found == {"liba.so": ("/two/liba.so", "two"), "libb.so": ("/one/libb.so", "one"), "libc.so": None}


def test_the_library_path_of_the_user_is_searched_first(tmp_path: Path) -> None:
    (tmp_path / "libtbb.so.12").write_bytes(b"")
    places = libraries.sources({"LD_LIBRARY_PATH": f"/absent::{tmp_path}"})
    assert libraries.find_library("libtbb.so.12", places) == str(tmp_path / "libtbb.so.12")


def test_a_system_wide_oneapi_is_found_last(tmp_path: Path) -> None:
    folder = tmp_path / "compiler" / "latest" / "lib"
    folder.mkdir(parents=True)
    (folder / "libonlyhere.so.7").write_bytes(b"")
    places = libraries.sources({"ONEAPI_ROOT": str(tmp_path)})
    assert libraries.find_library("libonlyhere.so.7", places) == str(folder / "libonlyhere.so.7")
    assert libraries.find_library("libonlyhere.so.8", places) is None


def test_a_distributions_records_lead_to_its_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages, lib = tmp_path / "lib" / "python" / "site-packages", tmp_path / "lib"
    info = packages / "example_rt-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: example-rt\nVersion: 1.0\n")
    (info / "RECORD").write_text("../../libexample.so.1,,\n../../libgone.so,,\nexample/__init__.py,,\n")
    (lib / "libexample.so.1").write_bytes(b"")
    monkeypatch.syspath_prepend(str(packages))
    found = libraries.distribution_source(("example-rt", "not-installed-at-all"))
    assert dict(found.files) == {"libexample.so.1": (str(lib / "libexample.so.1"), "example-rt")}


@pytest.mark.parametrize("generation", ["libsycl.so.7", "libsycl.so.8"])
def test_the_sycl_library_of_dpctl_is_read_from_its_interface(tmp_path: Path, generation: str) -> None:
    (tmp_path / "libDPCTLSyclInterface.so.0").write_bytes(b"\x7fELF\0libc.so.6\0" + generation.encode() + b"\0more")
    assert libraries.needed_sycl_library(tmp_path) == generation
    assert libraries.needed_sycl_library(tmp_path / "absent") is None
    assert libraries.needed_sycl_library(None) is None


def test_each_generation_has_its_adapter_before_its_runtime() -> None:
    order = [name for group in libraries.groups(NUMBA_DPEX) for name in group.patterns]
    assert order.index("libintlc.so.5") < order.index("libOpenCL.so.1") < order.index("libpi_opencl.so")
    assert order.index("libpi_opencl.so") < order.index("libsycl.so.7") < order.index("libmkl_core.so.[0-9]")
    newer = [name for group in libraries.groups(CURRENT) for name in group.patterns]
    assert newer.index("libur_adapter_opencl.so.0") < newer.index("libsycl.so.9") and "libpi_opencl.so" not in newer
    assert "libsycl.so.8" in libraries.groups(CURRENT, "libsycl.so.8")[3].patterns


@pytest.fixture
def circle(tmp_path: Path) -> Path:
    """Build two libraries that need each other's functions and do not name each other, like oneMKL's."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    for mine, other in (("ping", "pong"), ("pong", "ping")):
        code = tmp_path / f"{mine}.c"
        code.write_text(f"int sst_{other}(int); int sst_{mine}(int n) {{ return n ? sst_{other}(n - 1) + 1 : 0; }}\n")
        output = tmp_path / f"libsst{mine}.so"
        soname = f"-Wl,-soname,{output.name}"
        subprocess.run([compiler, "-shared", "-fPIC", "-o", str(output), str(code), soname], check=True)
    return tmp_path


def test_libraries_with_circular_references_load_once(circle: Path) -> None:
    import ctypes

    names = ("libsstping.so", "libsstpong.so")
    place = Source({name: (str(circle / name), "here") for name in names})
    first = libraries.preload([LibraryGroup("circle", names)], [place])
    assert [(each.source, each.error) for each in first] == [("here", None)] * 2
    everywhere = ctypes.CDLL(None)
    assert everywhere.sst_ping(5) == 5
    # Requested again with another folder: the library loaded before is kept.
    again = libraries.preload([LibraryGroup("circle", names)], [source("elsewhere", *names)])
    assert [(each.source, each.path) for each in again] == [("process", str(circle / name)) for name in names]


def test_a_library_that_fails_to_load_is_reported_and_others_load(tmp_path: Path) -> None:
    (tmp_path / "libsstbroken.so").write_bytes(b"not a library")
    group = LibraryGroup("g", ("libsstbroken.so", "libsstabsent.so.3"))
    broken, absent = libraries.preload([group], [Source({"libsstbroken.so": (str(tmp_path / "libsstbroken.so"), "t")})])
    assert broken.path == str(tmp_path / "libsstbroken.so") and broken.error is not None
    assert absent.source == "nowhere" and "libsstabsent.so.3" in str(absent.error)
