# SPDX-License-Identifier: Apache-2.0
"""Check that SPIR-V can express an optimised LLVM module, because LLVM ends the process where its target cannot.

The intrinsic functions listed were tried with LLVM 22's target and the translator.
"""

from __future__ import annotations

import re
from typing import Final

_DEFINITION: Final = re.compile(r'^define [^\n]*?@("[^"]+"|[\w.$-]+)\(', re.MULTILINE)
_DECLARATION: Final = re.compile(r'^declare [^\n]*?@("[^"]+"|[\w.$-]+)\(', re.MULTILINE)
_INTEGER: Final = re.compile(r'(?<![\w.%@$"-])i(\d+)(?![\w.":])')
_WIDTHS: Final = frozenset({"1", "8", "16", "32", "64"})
_AGGREGATE_CHOICE: Final = re.compile(r"= (?:phi|select i1 [^,\n]+,) [\[{]")
_MUTABLE_GLOBAL: Final = re.compile(r'^@("[^"]+"|[\w.$-]+) = (?![^\n]*\b(?:constant|addrspace\(3\)))', re.MULTILINE)
_INTRINSICS: Final = frozenset(
    (
        *("abs", "acos", "asin", "assume", "atan", "atan2", "bswap", "ceil", "copysign", "cos", "cosh"),
        *("ctlz", "ctpop", "cttz", "exp", "exp2", "fabs", "floor", "fma", "fmuladd", "fshl", "fshr"),
        *("is.fpclass", "lifetime.end", "lifetime.start", "log", "log10", "log2", "maximum", "maxnum"),
        *("memcpy", "memmove", "memset", "minimum", "minnum", "nearbyint", "pow", "powi", "rint", "round"),
        *("roundeven", "sadd.sat", "scmp", "sin", "sinh", "smax", "smin", "smul.with.overflow", "sqrt"),
        *("ssub.sat", "tan", "tanh", "trunc", "uadd.sat", "uadd.with.overflow", "ucmp", "umax", "umin"),
        *("umul.with.overflow", "usub.sat", "usub.with.overflow"),
    )
)
_TYPE_SUFFIX: Final = re.compile(r"(?:\.(?:[ivfp]\d+\w*|f16|f32|f64|p\d+\w*))+$")


def obstacle(text: str, kernel: str) -> str | None:
    """Return the construct in a module's text that SPIR-V cannot express; None if there is none."""
    functions = [name for name in _DEFINITION.findall(text) if name != kernel]
    if functions:
        return "a function that calls itself"
    for name in _DECLARATION.findall(text):
        name = name.strip('"')
        if name.startswith("llvm."):
            if _TYPE_SUFFIX.sub("", name.removeprefix("llvm.")) not in _INTRINSICS:
                return f"LLVM's {name}"
        elif name.startswith("NRT_"):
            return "memory allocated while it runs"
        elif not name.startswith("_Z"):
            return f"the host function {name}"
    widths = {width for width in _INTEGER.findall(text) if width not in _WIDTHS}
    if widths:
        return f"integers of {min(widths)} bits"
    if _AGGREGATE_CHOICE.search(text):
        return "a choice between two structures, such as tuples or arrays; choose between numbers instead"
    if found := _MUTABLE_GLOBAL.search(text):
        return f"the global variable {found[1]}"
    return None
