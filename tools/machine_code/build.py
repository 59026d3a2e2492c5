# SPDX-License-Identifier: Apache-2.0
"""Compilation of the package's functions into object files, when the package is built.

``python tools/machine_code/build.py`` compiles every function of ``argument_types.json``, or one share of them, and
writes one object file for each instruction set. setup.py runs it and links the extension modules.

numba compiles a function for a process: it optimises and links each called function as a library of its own, and those
of its callers again. Here all functions become one LLVM module first, which is optimised once for each instruction set.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import pickle
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import llvmlite.binding as llvm
from argument_lists import annealing_loops, event_loops, numba_type, read_list
from llvmlite import ir
from numba.core import types
from numba.core.codegen import AOTCodeLibrary, AOTCPUCodegen
from numba.core.cpu import CPUContext
from numba.core.registry import cpu_target

from syclsched.compiled import dispatchers
from syclsched.compiled.functions import known_functions
from syclsched.compiled.machine_code import entry_name
from syclsched.compiled.source_stamps import stamp_of


class Entry(NamedTuple):
    """A function to build for some argument types."""

    name: str
    arguments: list[Any]


def main() -> None:
    """Compile one share of the functions for some instruction sets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the object files go")
    parser.add_argument("--levels", default="v3", help="instruction sets, such as v2,v3")
    parser.add_argument("--share", type=int, default=0, help="which share of the functions")
    parser.add_argument("--shares", type=int, default=1, help="number of shares, 1 or 4", choices=(1, 4))
    asked = parser.parse_args()
    gc.set_threshold(100_000, 50, 1000)  # compilation creates many objects, and most of them are permanent
    entries = shares(asked.shares)[asked.share]
    for path in build(entries, asked.levels.split(","), asked.folder, asked.share) if entries else ():
        print(path, flush=True)


#: Words in the names of functions that share little code with others; all other functions form one share.
_SHARES: Final = ("transfers", "dynamic", "search")


def shares(count: int) -> list[list[Entry]]:
    """Return the functions to build in one share or in four, the slowest share first."""
    everything = [Entry(name, arguments) for name, variants in read_list().items() for arguments in variants]
    if count == 1:
        return [everything]
    found: dict[str, list[Entry]] = {word: [] for word in (*_SHARES, "")}
    for each in everything:
        found[next(word for word in found if word in each.name)].append(each)
    return [found.pop(""), *found.values()]


def _function(name: str) -> Any:
    """Return a compiled function by its name."""
    module, _, _ = name.partition(":")
    importlib.import_module(module)
    if name not in known_functions:
        _make_specialised()
    return known_functions[name]


_kept: list[Any] = []


def _make_specialised() -> None:
    """Make the functions that are compiled for each policy's rule, and for each evaluator's moves."""
    if not _kept:
        _kept.extend([*annealing_loops(), *event_loops()])


class _Library(AOTCodeLibrary):  # type: ignore[misc]
    """Code of one function, neither linked with its callees nor optimised."""

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0  # no function is called in this process


class _Codegen(AOTCPUCodegen):  # type: ignore[misc]
    """Code generation for one instruction set, instead of the one for this process."""

    _library_class = _Library

    def set_env(self, env_name: str, env: Any) -> None:
        """Do nothing: the extension module has its own environments."""

    def optimised(self, module: Any) -> Any:
        """Return the module after numba's passes: a cheap round, pruning of references, and the full round."""
        if hasattr(self, "_mpm_cheap"):  # numba 0.59
            self._mpm_cheap.run(module)
            self._mpm_full.run(module)
        else:
            cheap = {"loop_vectorize": self._loopvect, "slp_vectorize": False, "opt": self._opt_level, "cost": "cheap"}
            for options in (cheap, {}):
                manager, builder = self._module_pass_manager(**options)
                manager.run(module, builder)
        module.verify()
        return module

    def object_code(self, module: Any) -> bytes:
        return bytes(self._tm.emit_object(module))


def build(entries: Sequence[Entry], levels: Sequence[str], folder: Path, share: int) -> Iterator[Path]:
    """Compile functions; write one object file for each instruction set and yield its path."""
    context = cpu_target.target_context
    cpu_target.typing_context.refresh()
    context.refresh()  # with numba's own runtime, for calls in this process
    codegen = _Codegen(f"syclsched_{share}", f"x86-64-{levels[0]}")
    context._internal_codegen = codegen
    dispatchers.cache_on_disk = dispatchers.callee_of = lambda dispatcher: dispatcher  # wrappers: see `_Wrappers`
    wanted = _Wrappers()
    chosen = [(each, _function(each.name), tuple(numba_type(one) for one in each.arguments)) for each in entries]
    for _, function, arguments in chosen:
        wanted.add(function.py_func, arguments)
    module = llvm.parse_assembly(str(codegen._create_empty_module("syclsched")))
    table, linked = _Table(context, codegen, share), set[int]()
    with wanted:
        for each, function, arguments in chosen:
            begun_s = time.process_time()
            function.dispatcher.compile(arguments)
            result = function.dispatcher.overloads[arguments]
            _link(module, result.library, linked)
            table.add(entry_name(each.name, each.arguments, stamp_of(function.py_func)), result)
            print(f"{each.name}: {time.process_time() - begun_s:.1f} s", flush=True)
    module.link_in(llvm.parse_assembly(str(table.module())))
    _hide(module, table.name)
    for level in levels:
        begun_s = time.process_time()
        target = _Codegen(f"syclsched_{share}_{level}", f"x86-64-{level}")
        path = folder / f"machine_code_{level}_{share}.o"
        path.write_bytes(target.object_code(target.optimised(module.clone())))
        print(f"machine code for x86-64-{level}: {time.process_time() - begun_s:.1f} s", flush=True)
        yield path


def _link(module: Any, library: Any, linked: set[int]) -> None:
    """Add a library's code, and that of all its callees, each once."""
    todo = [library]
    while todo:
        each = todo.pop()
        if id(each) in linked:
            continue
        linked.add(id(each))
        _kept.append(each)
        for function in each._final_module.functions:
            # Functions that raise errors with the same types of arguments each have this helper.
            if function.name.startswith("__excinfo_unwrap_args") and not function.is_declaration:
                function.linkage = "weak_odr"
        module.link_in(each._final_module, preserve=not isinstance(each, _Library))
        todo += each._linking_libraries


def _hide(module: Any, table: str) -> None:
    """Make all symbols but the table local, so that functions inlined everywhere are dropped."""
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name != table and not value.name.startswith("llvm."):
            value.visibility = "default"
            value.linkage = "internal"


class _Wrappers:
    """While active, limit the wrappers that Python can call to the given functions."""

    def __init__(self) -> None:
        self._wanted: set[tuple[str, str, tuple[Any, ...]]] = set()
        self._made = CPUContext.create_cpython_wrapper, CPUContext.create_cfunc_wrapper

    def add(self, function: Any, arguments: tuple[Any, ...]) -> None:
        self._wanted.add((function.__module__, function.__qualname__, arguments))

    def __enter__(self) -> None:
        make, wanted = self._made[0], self._wanted

        def some(context: Any, library: Any, fndesc: Any, *others: Any, **named: Any) -> None:
            if (fndesc.modname, fndesc.qualname, tuple(fndesc.argtypes)) in wanted:
                make(context, library, fndesc, *others, **named)

        CPUContext.create_cpython_wrapper = some
        CPUContext.create_cfunc_wrapper = lambda *_, **__: None

    def __exit__(self, *_: object) -> None:
        CPUContext.create_cpython_wrapper, CPUContext.create_cfunc_wrapper = self._made


class _Table:
    """The array of the functions of an object file, ``struct entry`` of ``_machine_code.c``."""

    def __init__(self, context: Any, codegen: Any, share: int) -> None:
        self._context, self.name = context, f"syclsched_entries_{share}"
        self._module = codegen._create_empty_module(self.name)
        self._rows: list[Any] = []
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(64)
        self._row = ir.LiteralStructType([byte, byte, byte, byte, word, word])

    def add(self, name: str, result: Any) -> None:
        """Add a function by its compilation result."""
        byte, word = ir.IntType(8), ir.IntType(64)
        pointer = byte.as_pointer()
        wrapper = ir.Function(
            self._module, ir.FunctionType(pointer, [pointer] * 3), result.fndesc.llvm_cpython_wrapper_name
        )
        environment = self._context.declare_env_global(self._module, self._context.get_env_name(result.fndesc))
        constants = pickle.dumps(list(result.environment.consts), protocol=4)
        objects = not isinstance(result.signature.return_type, types.Number | types.Boolean | types.NoneType)
        row = [
            self._bytes(name.encode() + b"\0"),
            wrapper.bitcast(pointer),
            environment.bitcast(pointer),
            self._bytes(constants),
            word(len(constants)),
            word(int(objects)),
        ]
        self._rows.append(ir.Constant(self._row, row))

    def _bytes(self, data: bytes) -> Any:
        kind = ir.ArrayType(ir.IntType(8), len(data))
        variable = ir.GlobalVariable(self._module, kind, f"{self.name}.{len(self._module.globals)}")
        variable.initializer, variable.global_constant = ir.Constant(kind, bytearray(data)), True
        variable.linkage = "internal"
        return variable.bitcast(ir.IntType(8).as_pointer())

    def module(self) -> Any:
        """Return the LLVM module of the table."""
        rows = [*self._rows, ir.Constant(self._row, None)]
        kind = ir.ArrayType(self._row, len(rows))
        table = ir.GlobalVariable(self._module, kind, self.name)
        table.initializer, table.global_constant = ir.Constant(kind, rows), True
        return self._module


if __name__ == "__main__":
    main()
