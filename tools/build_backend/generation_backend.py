# SPDX-License-Identifier: Apache-2.0
"""Build backend: setuptools', with the requirements of the chosen generation of SYCL packages.

The setting ``generation`` of a build (``pip install -C generation=current .``) names a table of ``pyproject.toml``
below ``tool.syclsched.generations``. Its requirements become those of the build and of the package. Without the setting
the requirements of all generations are given, each with the Python versions for which it is the default.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from setuptools import build_meta

sys.path.insert(0, str(Path(__file__).parent))
import machine_code_builds

if sys.version_info < (3, 11):
    import tomli as tomllib
else:
    import tomllib

Settings = dict[str, Any] | None

SETTING = "generation"
_PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
_TABLES = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["tool"]["syclsched"]
GENERATIONS: dict[str, dict[str, Any]] = _TABLES["generations"]

#: The generation that this build's setting names.
_chosen: str | None = None


def choose(settings: Settings) -> None:
    """Read the setting; end the build if there is no such generation, or none for this Python."""
    global _chosen
    _chosen = (settings or {}).get(SETTING)
    if _chosen is None:
        return
    known = ", ".join(GENERATIONS)
    if not isinstance(_chosen, str) or _chosen not in GENERATIONS:
        sys.exit(f"the build setting {SETTING} is {_chosen!r}; it must be one of {known}")
    newest = GENERATIONS[_chosen]["newest-python"]
    if sys.version_info[:2] > tuple(map(int, newest.split("."))):
        python = ".".join(map(str, sys.version_info[:2]))
        sys.exit(
            f"the build setting {SETTING} is {_chosen}, which works up to CPython {newest}; this is CPython {python}. "
            "Leave the setting out"
        )


def _of_generations(key: str) -> list[str]:
    """Return the requirements of the chosen generation, or of all, each where it is the default."""
    if _chosen is not None:
        return list(GENERATIONS[_chosen].get(key, ()))
    return [f"{each}; {table['default']}" for table in GENERATIONS.values() for each in table.get(key, ())]


def required_numba() -> str:
    """Return the version of numba that the chosen generation requires, or this Python's default one."""
    python = sys.version_info[:2]
    fitting = [t for t in GENERATIONS.values() if python <= tuple(map(int, t["newest-python"].split(".")))]
    table = GENERATIONS[_chosen] if _chosen is not None else fitting[0]
    return next(each.removeprefix("numba==") for each in table["build"] if each.startswith("numba=="))


def _build_requirements() -> list[str]:
    """Return the requirements for making machine code; none if all of it is present already."""
    numba = required_numba()
    up_to_date = all(machine_code_builds.kept(level, numba) for level in machine_code_builds.levels_to_build())
    return [] if up_to_date else _of_generations("build")


def dependencies() -> list[str]:
    """Return the package's requirements."""
    return [*_of_generations("dependencies"), *_TABLES["dependencies"]]


def extras() -> dict[str, list[str]]:
    """Return the requirements of the package's extras."""
    return {
        name: [*requirements, *_of_generations(f"extra-{name}")] for name, requirements in _TABLES["extras"].items()
    }


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    choose(config_settings)
    return build_meta.get_requires_for_build_sdist(config_settings)


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    choose(config_settings)
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_build_requirements()]


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    choose(config_settings)
    return [*build_meta.get_requires_for_build_editable(config_settings), *_build_requirements()]


def prepare_metadata_for_build_wheel(folder: str, config_settings: Settings = None) -> str:
    choose(config_settings)
    return build_meta.prepare_metadata_for_build_wheel(folder, config_settings)


def prepare_metadata_for_build_editable(folder: str, config_settings: Settings = None) -> str:
    choose(config_settings)
    return build_meta.prepare_metadata_for_build_editable(folder, config_settings)


def build_sdist(folder: str, config_settings: Settings = None) -> str:
    choose(config_settings)
    return build_meta.build_sdist(folder, config_settings)


def build_wheel(folder: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    choose(config_settings)
    return build_meta.build_wheel(folder, config_settings, metadata_directory)


def build_editable(folder: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    choose(config_settings)
    return build_meta.build_editable(folder, config_settings, metadata_directory)
