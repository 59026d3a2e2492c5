# SPDX-License-Identifier: Apache-2.0
"""Results of integer sums: scaled, shifted, activated and quantised again, in NumPy and in OpenCL C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from syclsched.errors import ArgumentError
from syclsched.kernels.common import C_TYPES
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.opencl_types import literal
from syclsched.kernels.nn.panels import vector
from syclsched.model.access import AccessMode
from syclsched.model.operation import Parameter, Signature

#: Limits of quantised values.
LIMITS: Final = {"uint8": (0, 255), "int8": (-128, 127)}


@dataclass(frozen=True, slots=True)
class Finish:
    """Steps applied to a sum: ``activation(sum * s + b + r)``, quantised where ``quantise`` says how."""

    scaled: bool = False  # by s; without, the result is the int32 sum
    bias: bool = False
    residual: bool = False
    activation: Activation = ()
    quantise: tuple[float, int] | None = None  # scale and zero point of the result

    def __post_init__(self) -> None:
        if not self.scaled and (self.bias or self.residual or self.activation or self.quantise):
            raise ArgumentError("only a scaled sum has a bias, a residual, an activation or a quantised result")

    @property
    def label(self) -> str:
        """Return its part of an operation's name."""
        parts = [
            "scaled" if self.scaled else "",
            "bias" if self.bias else "",
            "residual" if self.residual else "",
            act.label(self.activation),
            "to({:.9g},{})".format(*self.quantise) if self.quantise else "",
        ]
        return " ".join(filter(None, parts))

    @property
    def cost(self) -> int:
        """Return the operations counted per element."""
        return 2 * self.scaled + self.bias + self.residual + act.cost(self.activation) + 3 * bool(self.quantise)

    def parameters(self) -> tuple[Parameter, ...]:
        """Return y, x, w, z (x's zero point), and optionally s, b and r."""
        results = tuple(LIMITS) if self.quantise else ("float32",) if self.scaled else ("int32",)
        given = {"s": self.scaled, "b": self.bias, "r": self.residual}
        return (
            Parameter("y", AccessMode.WRITE, dtypes=results),
            Parameter("x", AccessMode.READ, dtypes=tuple(LIMITS)),
            Parameter("w", AccessMode.READ, dtypes=("int8", "int16")),
            Parameter("z", AccessMode.READ, dtypes=("int32", *LIMITS)),
            *(Parameter(name, AccessMode.READ, dtypes=("float32",)) for name, is_so in given.items() if is_so),
        )

    def check(self, signature: Signature, columns: int) -> str | None:
        """Return what is wrong with the shapes of z, s, b and r."""
        shapes = signature.shapes
        one, each = ((), (1,)), (columns,)
        if shapes["z"] not in one:
            return f"z is one number, not {shapes['z']}"
        if self.scaled and shapes["s"] not in (*one, each):
            return f"s is one number or {each}, not {shapes['s']}"
        if self.bias and shapes["b"] != each:
            return f"b is {each}, not {shapes['b']}"
        if self.residual and shapes["r"] != shapes["y"]:
            return f"r is as y {shapes['y']}, not {shapes['r']}"
        return None

    def numpy(self, sums: Any, y: Any, arrays: Any) -> Any:
        """Return the results of sums whose last axis is that of columns; ``arrays`` are s, b and r as such."""
        import numpy as np

        if not self.scaled:
            return sums.astype(np.int32)
        made = sums.astype(np.float32) * arrays["s"].reshape(-1)
        made = made + arrays["b"] if self.bias else made
        made = made + arrays["r"] if self.residual else made
        made = act.numpy(self.activation, made)
        if self.quantise is None:
            return made
        scale, zero = self.quantise
        low, high = LIMITS[str(y.dtype)]
        return np.clip(np.rint(made / np.float32(scale)) + np.float32(zero), low, high).astype(y.dtype)

    def opencl(self, signature: Signature, width: int) -> str:
        """Return the OpenCL C function ``finish<width>`` of the sums of neighbouring columns."""
        dtype = signature.dtypes["y"]
        kind, floats, sums = (vector(each, width) for each in (C_TYPES[dtype], "float", "int"))

        def load(name: str, at: str) -> str:
            return f"vload{width}(0, {name} + {at})" if width > 1 else f"{name}[{at}]"

        lines = []
        if self.scaled:
            each = signature.shapes["s"] not in ((), (1,))
            lines += [f"{floats} v = convert_{floats}(sums) * {load('s', 'column') if each else 's[0]'};"]
            lines += [f"v += {load('b', 'column')};"] if self.bias else []
            lines += [f"v += {load('r', 'at')};"] if self.residual else []
            lines += [act.opencl(self.activation, "v", "float32", floats if width > 1 else None)]
        if self.quantise is not None:
            scale, zero = self.quantise
            low, high = (f"({floats}){literal(limit, 'float32')}" for limit in LIMITS[dtype])
            lines += ["v = rint(v);" if scale == 1 else f"v = rint(v / {literal(scale, 'float32')});"]
            lines += [f"v += {literal(zero, 'float32')};"] if zero else []
            lines += [f"return convert_{kind}(clamp(v, {low}, {high}));"]
        else:
            lines += ["return v;" if self.scaled else "return sums;"]
        names = {"s": self.scaled, "b": self.bias, "r": self.residual}
        more = "".join(f", __global const float* {name}" for name, is_so in names.items() if is_so)
        body = "\n  ".join(filter(None, lines))
        return f"{kind} finish{width}({sums} sums, int column, I at{more}) {{\n  {body}\n}}\n"

    @property
    def arguments(self) -> str:
        """Return the last arguments of the OpenCL C function: the arrays that it reads."""
        names = {"s": self.scaled, "b": self.bias, "r": self.residual}
        return "".join(f", {name}" for name, is_so in names.items() if is_so)
