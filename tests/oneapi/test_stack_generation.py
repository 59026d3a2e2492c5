# SPDX-License-Identifier: Apache-2.0
"""The install commands, and the pins, which equal those of the package's metadata."""

from __future__ import annotations

from syclsched.oneapi.stack_generation import CURRENT, GENERATIONS, NUMBA_DPEX, generation_of, intended, shipped_by


def test_install_commands_pin_packages_and_limit_numpy() -> None:
    commands = [each.install_command(("dpctl", "rich")) for each in GENERATIONS]
    assert commands == [
        'python -m pip install "dpctl==0.17.0" "rich" "numpy>=1.24,<2"',
        'python -m pip install "dpctl==0.22.1" "rich" "numpy>=1.26,<3"',
    ]


def test_the_generation_is_that_of_dpctl_or_the_pythons_default() -> None:
    assert generation_of({"dpctl": "0.17.0"}, (3, 10)) is NUMBA_DPEX
    assert generation_of({"dpctl": "0.22.1"}, (3, 10)) is CURRENT
    assert [generation_of({}, (3, minor)) for minor in (10, 11, 12, 14)] == [NUMBA_DPEX, NUMBA_DPEX, CURRENT, CURRENT]
    assert generation_of({"dpctl": "unknown"}, (3, 13)) is CURRENT


def test_the_intended_generation_is_that_of_most_packages() -> None:
    assert intended({**NUMBA_DPEX.pins, "dpctl": "0.22.1"}, (3, 11)) is NUMBA_DPEX
    assert intended({**CURRENT.pins, "numba-dpex": "0.23.0"}, (3, 11)) is CURRENT
    assert intended(NUMBA_DPEX.pins, (3, 13)) is CURRENT
    assert intended({}, (3, 11)) is NUMBA_DPEX


def test_mismatched_packages_are_those_of_another_release() -> None:
    for each in GENERATIONS:
        assert each.mismatched_packages({**each.pins, "numpy": "1.26.4", "tbb": "2023.0.1"}) == ()
    assert NUMBA_DPEX.mismatched_packages({**NUMBA_DPEX.pins, "numpy": "2.1.0"}) == ("numpy",)
    mixed = {**CURRENT.pins, "numba-dpex": "0.23.0", "intel-sycl-rt": "2026.2.0", "numba": "0.68.3"}
    assert set(CURRENT.mismatched_packages(mixed)) == {"numba-dpex", "intel-sycl-rt"}


def test_every_library_leads_to_a_pinned_distribution() -> None:
    names = (
        *("libintlc.so.5", "libsycl.so.7", "libpi_opencl.so", "libmkl_sycl_vm.so.4", "libmkl_core.so.2"),
        *("libtbb.so", "libur_loader.so.0"),
    )
    assert {name: shipped_by(name) for name in names} == {
        "libintlc.so.5": "intel-cmplr-lib-rt",
        "libsycl.so.7": "intel-sycl-rt",
        "libpi_opencl.so": "intel-sycl-rt",
        "libmkl_sycl_vm.so.4": "onemkl-sycl-vm",
        "libmkl_core.so.2": "mkl",
        "libtbb.so": "tbb",
        "libur_loader.so.0": "intel-cmplr-lib-ur",
    }
    assert shipped_by("libc.so.6") is None
