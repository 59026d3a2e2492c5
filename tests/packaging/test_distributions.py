# SPDX-License-Identifier: Apache-2.0
"""Contents of the sdist and the wheel, and the top-level folders in every kind of installation."""

from __future__ import annotations

import json
import os
import shutil
import site
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from syclsched.compiled import machine_code

Run = Callable[..., str]
ROOT = Path(__file__).resolve().parents[2]

#: Prints the location of each package, and whether the OpenCL layer was found.
SHOW_PARTS = """
import importlib
for name in ("syclsched", "syclsched.kernels", "syclsched.device_profiles"):
    print(importlib.import_module(name).__file__)
from importlib.resources import files
print(len([f for f in files("syclsched.device_profiles").iterdir() if f.name.endswith(".json")]))
from syclsched.oneapi.built_libraries import find_layer
print(find_layer())
"""


def sources(folder: str, pattern: str) -> set[str]:
    """Files of the project below a folder, relative to it."""
    return {str(p.relative_to(ROOT / folder)) for p in (ROOT / folder).rglob(pattern) if "__pycache__" not in p.parts}


def environment(**changes: str) -> dict[str, str]:
    """This process's environment, without a path of Python's own, changed."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | changes


@pytest.fixture(scope="module")
def wheel_names(distributions: Path) -> set[str]:
    (wheel,) = distributions.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def sdist_names(distributions: Path) -> set[str]:
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def test_the_wheel_has_every_module(wheel_names: set[str]) -> None:
    expected = {f"syclsched/{name}" for name in sources("syclsched", "*.py")}
    expected |= {f"syclsched/kernels/{name}" for name in sources("kernels", "*.py")}
    expected |= {f"syclsched/device_profiles/{name}" for name in sources("device_profiles", "*.py")}
    assert expected
    assert expected <= wheel_names
    assert "syclsched/kernels/__init__.py" in wheel_names


def test_the_wheel_has_the_profiles_the_script_and_the_type_marker(wheel_names: set[str]) -> None:
    profiles = {f"syclsched/device_profiles/{name}" for name in sources("device_profiles", "*.json")}
    assert profiles
    assert profiles <= wheel_names
    assert {"syclsched/py.typed", "syclsched/tracing/page/charts.js"} <= wheel_names


def test_the_wheel_has_nothing_outside_the_package(wheel_names: set[str]) -> None:
    assert {name.split("/")[0] for name in wheel_names if ".dist-info/" not in name} == {"syclsched"}
    assert any(name.endswith("licenses/LICENSE") for name in wheel_names)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: the layer is left out, as intended")
def test_the_wheel_has_the_compiled_layer(wheel_names: set[str]) -> None:
    assert [n for n in wheel_names if n.startswith("syclsched/oneapi/_il_layer") and n.endswith(".so")]


def test_the_sdist_has_all_sources(sdist_names: set[str]) -> None:
    expected = {f"syclsched/{name}" for name in sources("syclsched", "*.py") | sources("syclsched", "*.[ch]")}
    expected |= {f"kernels/{name}" for name in sources("kernels", "*.py")}
    expected |= {f"device_profiles/{name}" for name in sources("device_profiles", "*")}
    expected |= {f"tools/{name}" for name in sources("tools", "*/*.py")}
    expected |= {"tools/machine_code/argument_types.json", "syclsched/compiled/_machine_code.c"}
    expected |= {"pyproject.toml", "setup.py", "LICENSE", "README.md", "syclsched/oneapi/_il_layer.c"}
    assert expected <= sdist_names


def test_the_archives_have_no_leftovers(wheel_names: set[str], sdist_names: set[str]) -> None:
    assert not [name for name in wheel_names | sdist_names if "__pycache__" in name or name.endswith(".pyc")]
    assert not [name for name in sdist_names if name.endswith(".so")]


def test_an_installed_wheel_has_its_parts_inside(installed: Path, run: Run) -> None:
    shown = run(
        sys.executable, "-c", SHOW_PARTS, cwd=installed.parent, environment=environment(PYTHONPATH=str(installed))
    )
    *modules, profiles, layer = shown.split()
    assert modules == [
        str(installed / "syclsched" / part / "__init__.py") for part in ("", "kernels", "device_profiles")
    ]
    assert int(profiles) == len(sources("device_profiles", "*.json"))
    if shutil.which("cc") is not None:
        assert Path(layer).parent == installed / "syclsched" / "oneapi"


def test_a_checkout_works_although_the_wheel_is_installed(checkout: Path, installed: Path, run: Run) -> None:
    # `pip install .` and then `python -m syclsched` in the checkout: Python imports the checkout.
    shown = run(sys.executable, "-c", SHOW_PARTS, cwd=checkout, environment=environment(PYTHONPATH=str(installed)))
    *modules, profiles, layer = shown.split()
    assert modules == [str(checkout / part / "__init__.py") for part in ("syclsched", "kernels", "device_profiles")]
    assert int(profiles) == len(sources("device_profiles", "*.json"))
    if shutil.which("cc") is not None:
        assert Path(layer).parent == installed / "syclsched" / "oneapi"


#: Prints the digest of what machine code is made from, and what a build requires beside setuptools.
MADE_FROM = """
import sys
sys.path.insert(0, "tools/build_backend")
import generation_backend, machine_code_builds
print(machine_code_builds.made_from(machine_code_builds.numba_version("")))
print(generation_backend._build_requirements())
"""


def test_a_build_takes_machine_code_that_is_there_already(checkout: Path, tmp_path: Path, run: Run) -> None:
    """Making it again would take a minute for each change of a C file in an editable installation."""
    copy = tmp_path / "project"
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns("build", "*.egg-info", "*.so"))
    asked = environment(SYCLSCHED_MACHINE_CODE="v2")
    digest, required = run(sys.executable, "-c", MADE_FROM, cwd=copy, environment=asked).splitlines()[-2:]
    assert "numba==" in required
    there = copy / "syclsched" / "compiled" / f"{machine_code.stem()}v2{sysconfig.get_config_var('EXT_SUFFIX')}"
    there.write_text(f"machine code made from {digest}")
    command = (sys.executable, "setup.py", "-q", "build_ext", "--build-lib", tmp_path / "made")
    assert "making machine code" not in run(*command, cwd=copy, environment=asked)
    assert (tmp_path / "made" / "syclsched" / "compiled" / there.name).read_bytes() == there.read_bytes()
    # Nor does the build require the packages that make machine code.
    assert run(sys.executable, "-c", MADE_FROM, cwd=copy, environment=asked).splitlines()[-1] == "[]"


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler: no machine code is made, as intended")
def test_a_build_makes_machine_code(checkout: Path, tmp_path: Path, run: Run) -> None:
    """For one function here and two instruction sets; an installation makes that of all functions for one."""
    copy = tmp_path / "project"
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns("build", "*.egg-info", "*.so"))
    listed = copy / "tools" / "machine_code" / "argument_types.json"
    content = json.loads(listed.read_text())
    name = "syclsched.scheduling.core.ranks:mean_seconds"
    listed.write_text(json.dumps({**content, "functions": {name: content["functions"][name]}}))
    command = (sys.executable, "setup.py", "-q", "build_ext", "--build-lib", tmp_path / "made")
    said = run(*command, cwd=copy, environment=environment(SYCLSCHED_MACHINE_CODE="v2,v3"))
    assert "making machine code" in said and name in said
    modules = sorted((tmp_path / "made" / "syclsched" / "compiled").glob("*.so"))
    assert [each.name.split(".")[0] for each in modules] == [f"{machine_code.stem()}v2", f"{machine_code.stem()}v3"]
    shown = run(
        sys.executable, "-c", f"""
import importlib.util, numpy
spec = importlib.util.spec_from_file_location("{machine_code.stem()}v2", {str(modules[0])!r})
module = importlib.util.module_from_spec(spec)
print(len([name for name in dir(module) if len(name) == 32]))
""", cwd=tmp_path, environment=environment(),
    )  # fmt: skip
    assert int(shown) == len(content["functions"][name])


def test_a_build_without_numba_has_no_machine_code(checkout: Path, tmp_path: Path, run: Run) -> None:
    copy = tmp_path / "project"
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns("build", "*.egg-info", "*.so"))
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "numba.py").write_text("raise ImportError('hidden')")
    hidden = environment(SYCLSCHED_MACHINE_CODE="v2", PYTHONPATH=str(tmp_path / "hidden"))
    command = (sys.executable, "setup.py", "build_ext", "--build-lib", tmp_path / "made")
    run(*command, cwd=copy, environment=hidden)
    assert not list((tmp_path / "made" / "syclsched" / "compiled").glob("*.so"))


def test_an_editable_installation_finds_the_checkout(checkout: Path, tmp_path: Path, run: Run) -> None:
    scratch = tmp_path / "venv"
    venv.create(scratch, symlinks=True)
    python = scratch / "bin" / "python"
    lend_packages(tmp_path / "lent", next((scratch / "lib").glob("python*/site-packages")))
    copy = tmp_path / "project"
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns("build", "*.egg-info", "*.so"))
    options = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check")
    without = environment(SYCLSCHED_MACHINE_CODE="off")
    run(python, "-m", "pip", "install", *options, "-e", copy, cwd=tmp_path, environment=without)
    shown = run(python, "-c", SHOW_PARTS, cwd=tmp_path, environment=environment())
    *modules, profiles, layer = shown.split()
    assert modules == [str(copy / part / "__init__.py") for part in ("syclsched", "kernels", "device_profiles")]
    assert int(profiles) == len(sources("device_profiles", "*.json"))
    if shutil.which("cc") is not None:
        assert Path(layer).parent == copy / "syclsched" / "oneapi"


def lend_packages(folder: Path, borrower: Path) -> None:
    """Let another environment use the packages installed here, except this one, without installing them again."""
    folder.mkdir()
    for place in map(Path, site.getsitepackages()):
        for entry in place.iterdir() if place.is_dir() else ():
            ours = entry.name.startswith(("syclsched", "__editable__")) or entry.suffix == ".pth"
            if not ours and not (folder / entry.name).exists():
                (folder / entry.name).symlink_to(entry)
    (borrower / "lent.pth").write_text(f"{folder}\n", encoding="utf-8")
