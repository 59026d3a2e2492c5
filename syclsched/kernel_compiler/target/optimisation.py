# SPDX-License-Identifier: Apache-2.0
"""LLVM's optimisation of a kernel: everything inlined and simplified.

The passes are those that keep a program within what SPIR-V can express: LLVM's usual sequences also make integers of
odd widths and tables of constants. Unrolling and vectors are left to the drivers, which know their devices.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import binding as llvm

from syclsched.kernel_compiler.target import spirv

#: Passes by the names of llvmlite's new pass managers, and of those before LLVM 15. The first ``sroa`` splits numba's
#: structures, some of which hold pointers to variables; the second turns these variables into values.
_NEW: Final = (
    *("always_inliner", "global_dead_code_eliminate", "sroa", "instruction_combine", "simplify_cfg", "sroa", "sccp"),
    *("new_gvn", "instruction_combine", "loop_rotate", "dead_store_elimination", "aggressive_dce", "simplify_cfg"),
    "instruction_combine",
)
_OLD: Final = (
    *("always_inliner", "global_dce", "sroa", "instruction_combining", "cfg_simplification", "sroa", "sccp", "gvn"),
    *("instruction_combining", "loop_rotate", "licm", "dead_store_elimination", "aggressive_dead_code_elimination"),
    *("cfg_simplification", "instruction_combining"),
)
_INLINING_NEW: Final = ("always_inliner", "global_dead_code_eliminate")
_INLINING_OLD: Final = ("always_inliner", "global_dce")


def optimise(module: Any, kernel: str) -> None:
    """Optimise a module in place; only the kernel and its callees stay."""
    _run(module, kernel, _NEW if spirv.is_built_in() else _OLD)


def inline(module: Any, kernel: str) -> None:
    """Inline the functions of a module in place, and change nothing else; only the kernel stays."""
    _run(module, kernel, _INLINING_NEW if spirv.is_built_in() else _INLINING_OLD)


def _run(module: Any, kernel: str, passes: tuple[str, ...]) -> None:
    for function in module.functions:
        if not function.is_declaration and function.name != kernel:
            function.linkage = "internal"
    if spirv.is_built_in():
        # A builder is for one run: each run leaves calls of its own, ended objects in it.
        builder = llvm.create_pass_builder(spirv.target_machine(), llvm.create_pipeline_tuning_options())
        _with_passes(llvm.create_new_module_pass_manager(), passes).run(module, builder)
    else:
        _with_passes(llvm.create_module_pass_manager(), passes).run(module)


def _with_passes(manager: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        getattr(manager, f"add_{name}_pass")()
    return manager
