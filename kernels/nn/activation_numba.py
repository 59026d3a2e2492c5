# SPDX-License-Identifier: Apache-2.0
"""Activations as Python source for numba-dpex; see `syclsched.kernels.nn.activation`."""

from __future__ import annotations

import ast
import math
from typing import Any, Final

from syclsched.kernels.nn.activation import Activation

_ZERO, _ONE = "real(0.0)", "real(1.0)"
_SOFTPLUS: Final = "((v if v > real(0.0) else real(0.0)) + math.log1p(math.exp(-math.fabs(v))))"
_LINE: Final = "(v * {0} + {1})"

#: Name -> an expression of a variable ``v`` and the step's numbers.
STEPS: Final = {
    "relu": f"{_ZERO} if v < {_ZERO} else v",
    "leaky_relu": f"v * {{0}} if v < {_ZERO} else v",
    "thresholded_relu": f"{_ZERO} if v <= {{0}} else v",
    "elu": f"{{0}} * math.expm1(v) if v < {_ZERO} else v",
    "celu": f"{{0}} * math.expm1(v / {{0}}) if v < {_ZERO} else v",
    "selu": f"{{1}} * ({{0}} * math.expm1(v) if v < {_ZERO} else v)",
    "clip": "{0} if v < {0} else ({1} if v > {1} else v)",
    "sigmoid": f"{_ONE} / ({_ONE} + math.exp(-v))",
    "tanh": "math.tanh(v)",
    "gelu": f"v * real(0.5) * ({_ONE} + math.erf(v * real({math.sqrt(0.5)!r})))",
    "gelu_tanh": (
        f"v * real(0.5) * ({_ONE} + math.tanh(real({math.sqrt(2 / math.pi)!r}) * (v + real(0.044715) * v * v * v)))"
    ),
    "silu": f"v / ({_ONE} + math.exp(-v))",
    "hard_sigmoid": f"{_ZERO} if {_LINE} < {_ZERO} else ({_ONE} if {_LINE} > {_ONE} else {_LINE})",
    "hard_swish": f"{_ZERO} if v < real(-3.0) else (v if v > real(3.0) else v * (v + real(3.0)) * real({1 / 6!r}))",
    # 0 * v propagates NaN; the comparison alone does not.
    "softplus": f"{_SOFTPLUS} + {_ZERO} * v",
    "softsign": f"v / ({_ONE} + math.fabs(v))",
    "mish": f"v * math.tanh({_SOFTPLUS})",
    "erf": "math.erf(v)",
    "exp": "math.exp(v)",
    "log": "math.log(v)",
    "sqrt": "math.sqrt(v)",
    "abs": "math.fabs(v)",
    "neg": "-v",
    "square": "v * v",
    "reciprocal": f"{_ONE} / v",
    "scale": "v * {0}",
    "shift": "v + {0}",
}


def applied(activation: Activation, indent: str) -> str:
    """Return source lines that apply an activation to the variable ``v``, of dtype ``real``."""
    lines = ""
    for name, *numbers in activation:
        values = [f"real({float(number)!r})" for number in numbers]
        lines += f"{indent}v = real({STEPS[str(name)].format(*values)})\n"
    return lines


def applied_wide(activation: Activation, indent: str) -> str:
    """Return source lines that apply an activation to a vector ``v``."""
    lines = ""
    for name, *numbers in activation:
        values = [f"real({float(number)!r})" for number in numbers]
        tree = _Vectoriser().visit(ast.parse(STEPS[str(name)].format(*values), mode="eval"))
        lines += f"{indent}v = {ast.unparse(tree)}\n"
    return lines


class _Vectoriser(ast.NodeTransformer):
    """Rewrites a scalar expression as one of vectors."""

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        parts: list[Any] = [self.visit(each) for each in (node.test, node.body, node.orelse)]
        return ast.Call(ast.Name("choose", ast.Load()), parts, [])

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return ast.Name(f"v{node.attr}", ast.Load())
