# SPDX-License-Identifier: Apache-2.0
"""Shared libraries of the SYCL stack: search, and loading in the order that their circular references need.

The packages' libraries are where pip put them (virtual environment, ``--user``, dist-packages), and their run paths do
not contain these folders. They are found through the installed distributions' records and opened before dpctl needs
them: once a library is in the process, the dynamic linker uses it for every later reference to its name.
"""

from __future__ import annotations

import csv
import ctypes
import fnmatch
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from syclsched.oneapi import stack_generation
from syclsched.oneapi.stack_generation import StackGeneration

if TYPE_CHECKING:
    from importlib.metadata import Distribution

SYCL_GROUP = "SYCL runtime"
MATH_GROUP = "oneMKL"
COMPILER_GROUP = "compiler runtime"
LOADER_GROUP = "OpenCL loader"
CPU_ICD_LIBRARY = "libintelocl.so"
#: The libraries of oneMKL that matrix products need; the others are four times as large.
BLAS_LIBRARIES = (
    "libmkl_core.so.[0-9]",
    "libmkl_tbb_thread.so.[0-9]",
    "libmkl_intel_ilp64.so.[0-9]",
    "libmkl_sycl_blas.so.[0-9]",
)
_ONEAPI_COMPONENTS = ("compiler", "tbb", "mkl")


@dataclass(frozen=True, slots=True)
class LibraryGroup:
    """Libraries that must come from one place, as file-name patterns in loading order."""

    name: str
    patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LibraryFound:
    """The result of searching and loading one library.

    `source` says where it was found: ``process`` (already loaded), ``LD_LIBRARY_PATH``, a distribution's name, a
    folder, ``linker`` (found by the dynamic linker) or ``nowhere``. `error` is the linker's message if loading failed,
    else None.
    """

    name: str
    path: str | None
    source: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A place that holds libraries: file name to (path, label of the place)."""

    files: Mapping[str, tuple[str, str]]

    def find(self, pattern: str) -> tuple[str, str] | None:
        """Return path and label of the first file that matches the pattern, if any."""
        if pattern in self.files:
            return self.files[pattern]
        names = sorted(fnmatch.filter(self.files, pattern), reverse=True)
        return self.files[names[0]] if names else None


def dpctl_folder() -> Path | None:
    """Return the folder of the dpctl package that would be imported, without importing it."""
    try:
        spec = importlib.util.find_spec("dpctl")
    except (ImportError, ValueError):
        return None
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def needed_sycl_library(folder: Path | None) -> str | None:
    """Return the SYCL library's name that the dpctl in a folder is linked against, from its string table."""
    if folder is None:
        return None
    for interface in sorted(folder.glob("libDPCTLSyclInterface.so*")):
        found = re.search(rb"\0(libsycl\.so\.\d+)\0", interface.read_bytes())
        if found:
            return found.group(1).decode()
    return None


def groups(generation: StackGeneration, sycl_library: str | None = None) -> tuple[LibraryGroup, ...]:
    """Return the libraries of a generation to load, in order.

    `sycl_library` is the one that dpctl is linked against.
    """
    return (
        LibraryGroup(COMPILER_GROUP, ("libintlc.so.5", "libsvml.so", "libirng.so", "libimf.so")),
        LibraryGroup("oneTBB", ("libtbb.so.12",)),
        LibraryGroup(LOADER_GROUP, ("libOpenCL.so.1",)),
        LibraryGroup(SYCL_GROUP, (*generation.adapters, sycl_library or generation.sycl_library)),
        LibraryGroup(
            MATH_GROUP,
            (
                "libmkl_core.so.[0-9]",
                "libmkl_tbb_thread.so.[0-9]",
                "libmkl_intel_ilp64.so.[0-9]",
                *(f"libmkl_sycl_{domain}.so.[0-9]" for domain in generation.mkl_domains),
            ),
        ),
    )


def sources(environ: Mapping[str, str]) -> tuple[Source, ...]:
    """Return the places to search, the user's own choice (``LD_LIBRARY_PATH``) first."""
    paths = [Path(each) for each in environ.get("LD_LIBRARY_PATH", "").split(":") if each]
    chosen = [_folder_source(path, "LD_LIBRARY_PATH") for path in paths]
    return (*chosen, distribution_source(), *(_folder_source(path, str(path)) for path in _usual_folders(environ)))


def distribution_source(names: Iterable[str] = stack_generation.DISTRIBUTIONS) -> Source:
    """Return the shared libraries listed in the records of the installed distributions named."""
    from importlib import metadata

    files: dict[str, tuple[str, str]] = {}
    for name in names:
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        for entry in _listed_libraries(distribution):
            library = os.path.basename(entry)
            if library not in files:
                path = os.path.normpath(str(distribution.locate_file(entry)))
                if os.path.exists(path):
                    files[library] = (path, name)
    return Source(files)


def _listed_libraries(distribution: Distribution) -> Iterator[str]:
    """Yield the paths of the shared libraries in a distribution's list of files, relative to it."""
    record = distribution.read_text("RECORD")
    # `Distribution.files` makes an object of each of thousands of files, which takes a tenth of a second.
    lines = record.splitlines() if record is not None else map(str, distribution.files or ())
    for row in csv.reader(line for line in lines if ".so" in line):
        library = os.path.basename(row[0])
        if library.startswith("lib") and ".so" in library:
            yield row[0]


def _folder_source(folder: Path, label: str) -> Source:
    try:
        names = [name for name in os.listdir(folder) if name.startswith("lib") and ".so" in name]
    except OSError:
        names = []  # search paths may name missing folders; the dynamic linker skips them, too
    return Source({name: (str(folder / name), label) for name in names})


def _usual_folders(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the folders of conda environments and of a system-wide oneAPI, which no Python distribution lists."""
    yield Path(sys.prefix) / "lib"
    yield Path(sys.base_prefix) / "lib"
    if "CMPLR_ROOT" in environ:
        yield Path(environ["CMPLR_ROOT"]) / "lib"
    root = Path(environ.get("ONEAPI_ROOT", "/opt/intel/oneapi"))
    for component in _ONEAPI_COMPONENTS:
        yield root / component / "latest" / "lib"


def locate(group: LibraryGroup, places: Iterable[Source]) -> tuple[tuple[str, tuple[str, str] | None], ...]:
    """Choose a group's libraries: all from the first place that has them all, else each from the first that has it."""
    known = tuple(places)
    for place in known:
        found = tuple((pattern, place.find(pattern)) for pattern in group.patterns)
        if all(hit is not None for _, hit in found):
            return found
    return tuple(
        (pattern, next((hit for hit in (place.find(pattern) for place in known) if hit), None))
        for pattern in group.patterns
    )


def find_library(name: str, places: Iterable[Source]) -> str | None:
    """Return the path of the first library of that name, if any place has it."""
    return next((hit[0] for hit in (place.find(name) for place in places) if hit), None)


def copies(name: str, places: Iterable[Source]) -> tuple[str, ...]:
    """Return the paths of the different libraries of that name; links to one file count once."""
    found = [hit[0] for hit in (place.find(name) for place in places) if hit]
    return tuple({os.path.realpath(path): path for path in reversed(found)}.values())[::-1]


def known_to_linker(name: str) -> str | None:
    """Return the system's library of a bare name, as the dynamic linker finds it (``OpenCL``: ``libOpenCL.so.1``)."""
    import ctypes.util

    return ctypes.util.find_library(name)


def preload(
    wanted: Iterable[LibraryGroup], places: Iterable[Source], *, only: Container[str] | None = None
) -> tuple[LibraryFound, ...]:
    """Load libraries into the process, lazily bound and visible to all later ones.

    ``only`` are the patterns of those to load; they are searched together with the others of their group.
    A library that is already loaded under the same name is not loaded again: two copies of a SYCL runtime in one
    process are fatal. Missing libraries raise no error; the result reports them.
    """
    open_library, last_error = _linker()
    known = tuple(places)
    found: list[LibraryFound] = []
    for group in wanted:
        for pattern, hit in locate(group, known):
            if only is not None and pattern not in only:
                continue
            name = os.path.basename(hit[0]) if hit else pattern
            found.append(_load_one(name, hit, open_library, last_error))
    return tuple(found)


def _load_one(
    name: str, hit: tuple[str, str] | None, open_library: Callable[[str, int], bool], last_error: Callable[[], str]
) -> LibraryFound:
    # RTLD_LAZY because oneMKL's libraries have circular references: with RTLD_NOW the first one fails.
    mode = os.RTLD_LAZY | os.RTLD_GLOBAL
    if open_library(name, mode | os.RTLD_NOLOAD):
        return LibraryFound(name, loaded_path(name), "process")
    if hit is not None:
        if open_library(hit[0], mode):
            return LibraryFound(name, hit[0], hit[1])
        return LibraryFound(name, hit[0], hit[1], last_error())
    if open_library(name, mode):
        return LibraryFound(name, loaded_path(name), "linker")
    return LibraryFound(name, None, "nowhere", last_error())


def _linker() -> tuple[Callable[[str, int], bool], Callable[[], str]]:
    """Return libc's own ``dlopen`` and ``dlerror``: `ctypes.CDLL` would add RTLD_NOW to every mode."""
    libc = ctypes.CDLL(None)
    libc.dlopen.argtypes = [ctypes.c_char_p, ctypes.c_int]
    libc.dlopen.restype = ctypes.c_void_p
    libc.dlerror.restype = ctypes.c_char_p

    def open_library(name: str, mode: int) -> bool:
        return libc.dlopen(os.fsencode(name), mode) is not None

    def last_error() -> str:
        message: bytes | None = libc.dlerror()
        return message.decode(errors="replace") if message else "unknown error of the dynamic linker"

    return open_library, last_error


def loaded_path(name: str) -> str | None:
    """Return the file of a library loaded in this process, from Linux's memory map."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    stem = name.split(".so")[0] + ".so"
    paths = (line.split(maxsplit=5)[-1] for line in maps.splitlines() if "/" in line)
    return next((path for path in paths if os.path.basename(path).startswith(stem)), None)
