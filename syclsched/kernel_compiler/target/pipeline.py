# SPDX-License-Identifier: Apache-2.0
"""numba's passes from bytecode to LLVM IR, as far as a function needs them, run without numba's bookkeeping."""

from __future__ import annotations

import dis
from types import CodeType
from typing import Any, Final

from numba.core import ir, untyped_passes
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import AnalysisPass, PassManager, _pass_registry, register_pass
from numba.core.errors import UnsupportedError
from numba.core.postproc import PostProcessor
from numba.core.typed_passes import (
    InlineOverloads,
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NoPythonSupportedFeatureValidation,
    NopythonTypeInference,
    PreLowerStripPhis,
)

_CONTAINERS: Final = {"build_list": "lists", "build_set": "sets", "build_map": "dictionaries"}
_RAISE: Final = dis.opmap["RAISE_VARARGS"]


@register_pass(mutates_CFG=False, analysis_only=True)
class RefuseUnsupported(AnalysisPass):  # type: ignore[misc]
    """Refusal of output, and of lists, sets and dictionaries, whose memory would be allocated while a kernel runs."""

    _name = "syclsched_refuse_unsupported"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Visit all statements."""
        for block in state.func_ir.blocks.values():
            for statement in block.find_insts(ir.Print):
                raise UnsupportedError("kernels cannot print: write to an array instead", statement.loc)
            for assignment in block.find_insts(ir.Assign):
                word = _CONTAINERS.get(getattr(assignment.value, "op", ""))
                if word is not None:
                    raise UnsupportedError(f"kernels have no {word}: use a tuple or a PrivateArray", assignment.loc)
        return False


class KernelPasses(PassManager):  # type: ignore[misc]
    """A list of passes."""

    def run(self, state: Any) -> None:
        """Run the passes; data that numba derives from a function's blocks is computed again where passes need it."""
        for kind, _ in self.passes:
            one = _pass_registry.get(kind).pass_inst
            one.analysis = self._analysis
            if kind is NopythonTypeInference:
                PostProcessor(state.func_ir).run()
            is_changed = one.run_initialization(state) | one.run_pass(state) | one.run_finalizer(state)
            if kind in _CHANGES_BLOCKS and is_changed:
                PostProcessor(state.func_ir).run()


_CHANGES_BLOCKS: Final = (
    untyped_passes.InlineClosureLikes,
    untyped_passes.MakeFunctionToJitFunction,
    untyped_passes.LiteralUnroll,
)


class KernelPipeline(CompilerBase):  # type: ignore[misc]
    """numba's way from a function to LLVM IR."""

    def define_pipelines(self) -> list[Any]:
        """Return the only list of passes."""
        passes = KernelPasses("kernel")
        passes.passes = [(each, each.__name__) for each in (*_before_typing(self.state), *_AFTER_TYPING)]
        passes.finalize()
        return [passes]


_AFTER_TYPING: Final = (
    NopythonTypeInference,
    PreLowerStripPhis,
    InlineOverloads,
    NoPythonSupportedFeatureValidation,
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
)


def _before_typing(state: Any) -> list[Any]:
    """Return the passes before typing, without those for constructs that the function's code does not contain."""
    passes: list[Any] = []
    code = None
    if state.func_ir is None:
        passes += [untyped_passes.TranslateByteCode, untyped_passes.FixupArgs]
        code = state.func_id.code
    passes.append(untyped_passes.IRProcessing)
    has_closures = code is None or any(isinstance(each, CodeType) for each in code.co_consts)
    if has_closures:
        passes.append(untyped_passes.InlineClosureLikes)
    passes += [untyped_passes.RewriteSemanticConstants, untyped_passes.DeadBranchPrune, untyped_passes.GenericRewrites]
    if code is None or _RAISE in code.co_code[::2]:
        passes.append(untyped_passes.RewriteDynamicRaises)
    if has_closures:
        passes.append(untyped_passes.MakeFunctionToJitFunction)
    passes.append(RefuseUnsupported)
    if code is None or {"literally", "literal_unroll"} & {*code.co_names, *code.co_freevars}:
        passes += [untyped_passes.FindLiterallyCalls, untyped_passes.LiteralUnroll]
    return [*passes, untyped_passes.ReconstructSSA, untyped_passes.LiteralPropagationSubPipelinePass]
