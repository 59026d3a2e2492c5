# SPDX-License-Identifier: Apache-2.0
"""Loading of the SYCL stack into this process: environment, libraries and dpctl, once and in the right order."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, ClassVar

from syclsched import processor_flags
from syclsched.errors import RuntimeMissingError
from syclsched.interrupts import redeliver_lost_interrupts
from syclsched.oneapi import (
    built_libraries,
    crash_marker,
    environment,
    fork_check,
    libraries,
    opencl_drivers,
    processor,
    stack_generation,
)
from syclsched.oneapi import emulator as emulators
from syclsched.oneapi.libraries import LibraryFound
from syclsched.oneapi.stack_generation import shipped_by

_OPENCL_DISTRIBUTION = "intel-opencl-rt"


@dataclass(frozen=True, slots=True)
class Runtime:
    """The SYCL stack as it was found and loaded."""

    generation: str  # name of the generation that dpctl belongs to
    versions: dict[str, str]  # installed distributions of the stack and their versions
    #: Every library searched but those of `load_math_libraries`, with its origin or its error.
    libraries: tuple[LibraryFound, ...]
    icd_files: tuple[str, ...]  # OpenCL drivers passed to the loader
    layer: str | None  # the OpenCL layer in use
    emulator: str | None  # the FPGA emulator's library
    target_arch: str | None  # instruction set the CPU runtime compiles for; None: its own choice
    boot_environment: dict[str, str]  # variables that change generated code or the devices' behaviour
    notes: tuple[str, ...]  # settings left out or left to the user, with reasons


_lock = threading.Lock()
_runtime: Runtime | None = None


def is_loaded() -> bool:
    """Return whether `load` has succeeded in this process."""
    return _runtime is not None


def load() -> Runtime:
    """Prepare the process for SYCL and import dpctl; safe to call from any thread, any number of times."""
    global _runtime
    fork_check.check_not_forked("load()")
    with _lock:
        if _runtime is None:
            _runtime = _load()
            fork_check.watch()
            redeliver_lost_interrupts()  # objects of the stack are released in callbacks
        return _runtime


def installed_versions() -> dict[str, str]:
    """Return the versions of the stack's installed distributions."""
    from importlib import metadata

    versions: dict[str, str] = {}
    for name in stack_generation.DISTRIBUTIONS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _load() -> Runtime:
    already_imported = hasattr(sys.modules.get("dpctl"), "SyclDevice")
    versions = installed_versions()
    own = environment.user_environment(os.environ)
    places = libraries.sources(own)
    generation = stack_generation.installed()
    # With another NumPy, dpctl can be imported, but packages that use its arrays cannot.
    if "numpy" in generation.mismatched_packages(versions):
        what, command = generation.describe_mixed(versions)
        raise _cannot_load(what, command)
    wanted = libraries.groups(generation, libraries.needed_sycl_library(libraries.dpctl_folder()))
    values: dict[str, str] = {}
    notes: tuple[str, ...]
    if already_imported:
        notes = ("dpctl was imported before: its environment was left as it is, and nothing was added to it",)
    else:
        values, notes = _prepare_environment(own, places, wanted, versions)
    found = libraries.preload([each for each in wanted if each.name != libraries.MATH_GROUP], places)
    _MathLibraries([each for each in wanted if each.name == libraries.MATH_GROUP], places).load_with_dpnp()
    dpctl = _import_dpctl(found, versions)
    # The first query of devices reads the drivers. It is made here, so that later queries see the same devices and the
    # loader's changes of the environment can be undone.
    with crash_marker.mark(opencl_drivers.guard_file()) if opencl_drivers.named_drivers(own) else nullcontext():
        dpctl.get_num_devices()
    environment.repair(os.environ, values)
    return _describe(generation.name, versions, found, notes)


class _MathLibraries:
    """oneMKL, which takes as long to load as all the rest and which only dpnp needs: loaded when dpnp is imported."""

    current: ClassVar[_MathLibraries | None] = None

    def __init__(self, groups: Sequence[libraries.LibraryGroup], places: tuple[libraries.Source, ...]) -> None:
        self._groups, self._places = groups, places
        self._found: tuple[LibraryFound, ...] | None = None

    def load_with_dpnp(self) -> None:
        """Load them now if dpnp is imported already, else when it is imported by any code."""
        _MathLibraries.current = self
        if "dpnp" in sys.modules:
            self.load()
        else:
            sys.meta_path.insert(0, self)

    def load(self) -> tuple[LibraryFound, ...]:
        """Load them, once."""
        if self._found is None:
            self._found = libraries.preload(self._groups, self._places)
        return self._found

    def load_blas(self) -> None:
        """Load those that matrix products need."""
        if self._found is None:
            libraries.preload(self._groups, self._places, only=libraries.BLAS_LIBRARIES)

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """Return a specification of dpnp that loads the libraries when it is imported; part of `sys.meta_path`.

        A check whether dpnp is installed asks for a specification, too.
        """
        spec = PathFinder.find_spec(name, path, target) if name == "dpnp" else None
        if spec is None or spec.loader is None:
            return None
        spec.loader = _LoadedBefore(spec.loader, self.load)
        return spec


class _LoadedBefore(Loader):
    """A loader of a module that calls a function first."""

    def __init__(self, loader: Loader, before: Callable[[], object]) -> None:
        self._loader = loader
        self._before = before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._before()
        self._loader.exec_module(module)


def load_math_libraries() -> tuple[LibraryFound, ...]:
    """Load the libraries that only dpnp needs, and return how each was found."""
    load()
    return () if _MathLibraries.current is None else _MathLibraries.current.load()


def ask_drivers(
    own: Mapping[str, str],
    places: tuple[libraries.Source, ...],
    wanted: Sequence[libraries.LibraryGroup],
    *,
    refresh: bool = False,
) -> tuple[opencl_drivers.Driver, ...]:
    """Ask the OpenCL drivers that do not come with the pinned packages for their devices, in processes of their own."""
    named = opencl_drivers.named_drivers(own)
    if not named:
        return ()
    loader: list[str] = []
    for group in wanted:
        if group.name in (libraries.COMPILER_GROUP, libraries.LOADER_GROUP):
            loader += [name if hit is None else hit[0] for name, hit in libraries.locate(group, places)]
    known = libraries.find_library(libraries.CPU_ICD_LIBRARY, places)
    return opencl_drivers.ask(named, loader, (known,), refresh=refresh)


def _prepare_environment(
    own: dict[str, str],
    places: tuple[libraries.Source, ...],
    wanted: Sequence[libraries.LibraryGroup],
    versions: dict[str, str],
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Set the requested variables that the user has not set; return them, with notes."""
    cpu_driver = libraries.find_library(libraries.CPU_ICD_LIBRARY, places)
    notes: list[str] = []
    drivers = [cpu_driver] if cpu_driver is not None else []
    if environment.ICD_VARIABLE not in own:
        emulator = emulators.prepare(cpu_driver, versions.get(_OPENCL_DISTRIBUTION), own)
        drivers += [emulator.library] if emulator.library is not None else []
        notes += [emulator.note] if emulator.note is not None else []
    guard = opencl_drivers.guard_file()
    asked = ask_drivers(own, places, wanted, refresh=crash_marker.is_orphaned(guard))
    crashing = [each for each in asked if each.crashes]
    notes += [f"the OpenCL driver {each.library} is left out: {each.failure}" for each in crashing]
    layer_library = built_libraries.find_layer()
    if layer_library is None:
        notes.append("no OpenCL layer: numba-dpex kernels cannot run on OpenCL 1.2 devices (the FPGA emulator)")
    requested = environment.RequestedSettings(
        icd_files=tuple(drivers),
        layer=layer_library,
        target_arch=processor.target_arch(processor_flags.read_flags()),
        harmless_drivers=_without(opencl_drivers.named_drivers(own), crashing),
        no_vendor_files=opencl_drivers.NO_VENDOR_FILES,
    )
    values, kept = environment.decide(own, requested)
    environment.apply(os.environ, values)
    return values, (*notes, *kept)


def _without(named: Iterable[tuple[str, str]], crashing: Sequence[opencl_drivers.Driver]) -> tuple[str, ...] | None:
    """Return the named drivers that may be loaded; None if all may."""
    out = {each.library for each in crashing}
    return tuple(library for library, _ in named if library not in out) if out else None


def _import_dpctl(found: tuple[LibraryFound, ...], versions: dict[str, str]) -> Any:
    try:
        import dpctl
    except ImportError as error:
        what, command = explain_import_failure(str(error), versions, found)
        raise _cannot_load(what, command) from error
    return dpctl


def _cannot_load(what: str, command: str) -> RuntimeMissingError:
    hint = f"`python -m syclsched doctor` says more. Run: {command}"
    return RuntimeMissingError(what, where="SYCL runtime", hint=hint)


def explain_import_failure(
    message: str,
    versions: Mapping[str, str],
    libraries: Iterable[LibraryFound],
    python: tuple[int, int] = sys.version_info[:2],
) -> tuple[str, str]:
    """Return why dpctl could not be imported, and the command that fixes it."""
    generation = stack_generation.intended(versions, python)
    install_command = generation.install_command
    if generation.mismatched_packages(versions):
        mixed, command = generation.describe_mixed(versions)
        return f"dpctl cannot be imported ({message}); {mixed}", command
    if "dpctl" not in versions and "No module named 'dpctl'" in message:
        return "dpctl is not installed", install_command()
    found = re.search(r"(lib[\w+.-]+\.so[.\d]*)", message)
    owner = shipped_by(found.group(1)) if found else None
    broken = [each.name for each in libraries if each.path is None and each.error is not None]
    also = f" (not found: {', '.join(broken)})" if broken else ""
    if found and owner:
        return f"{found.group(1)} could not be loaded: {message}{also}", install_command((owner,))
    return f"dpctl cannot be imported: {message}{also}", install_command()


def _describe(
    generation: str, versions: dict[str, str], found: tuple[LibraryFound, ...], notes: tuple[str, ...]
) -> Runtime:
    icd_files = tuple(each for each in os.environ.get(environment.ICD_VARIABLE, "").split(":") if each)
    layer_library = built_libraries.find_layer()
    in_use = layer_library is not None and layer_library in os.environ.get(environment.LAYERS_VARIABLE, "").split(":")
    return Runtime(
        generation=generation,
        versions=versions,
        libraries=found,
        icd_files=icd_files,
        layer=layer_library if in_use else None,
        emulator=next((each for each in icd_files if each.endswith(emulators.EMULATOR_LIBRARY)), None),
        target_arch=os.environ.get(processor.TARGET_ARCH_VARIABLE),
        boot_environment=environment.boot_environment(os.environ),
        notes=notes,
    )


def load_blas_libraries() -> None:
    """Load the part of oneMKL that matrix products need, for its extension modules that are used without dpnp."""
    load()
    if _MathLibraries.current is not None:
        _MathLibraries.current.load_blas()
