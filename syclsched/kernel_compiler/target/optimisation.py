# SPDX-License-Identifier: Apache-2.0
"""LLVM's optimisation of a kernel: everything inlined and simplified.

The passes are those that keep a program within what SPIR-V can express: LLVM's usual sequences also make integers of
odd widths and tables of constants. Unrolling and vectors are left to the drivers, which know their devices.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import binding as llvm

from syclsched.kernel_compiler.target import spirv

#: Passes by the names of llvmlite's new pass managers, and of those before LLVM 15.
_NEW: Final = (
    *("always_inliner", "global_dead_code_eliminate", "sroa", "instruction_combine", "simplify_cfg", "sccp", "new_gvn"),
    *("instruction_combine", "loop_rotate", "dead_store_elimination", "aggressive_dce", "simplify_cfg"),
    "instruction_combine",
)
_OLD: Final = (
    *("always_inliner", "global_dce", "sroa", "instruction_combining", "cfg_simplification", "sccp", "gvn"),
    *("instruction_combining", "loop_rotate", "licm", "dead_store_elimination", "aggressive_dead_code_elimination"),
    *("cfg_simplification", "instruction_combining"),
)


def optimise(module: Any, kernel: str) -> None:
    """Optimise a module in place; only the kernel and what it needs stay."""
    for function in module.functions:
        if not function.is_declaration and function.name != kernel:
            function.linkage = "internal"
    if spirv.is_built_in():
        # A builder is for one run: each run leaves calls of its own, ended objects in it.
        builder = llvm.create_pass_builder(spirv.target_machine(), llvm.create_pipeline_tuning_options())
        _with_passes(llvm.create_new_module_pass_manager(), _NEW).run(module, builder)
    else:
        _with_passes(llvm.create_module_pass_manager(), _OLD).run(module)


def _with_passes(manager: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        getattr(manager, f"add_{name}_pass")()
    return manager
