# SPDX-License-Identifier: Apache-2.0
"""Results of integer sums: scaled, shifted, activated and quantised again, in NumPy and in OpenCL C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from syclsched.errors import ArgumentError
from syclsched.kernels.common import C_TYPES
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.opencl_types import literal
from syclsched.kernels.nn.panels import vector
from syclsched.kernels.quantisation import LIMITS, QuantisedAddend
from syclsched.model.access import AccessMode
from syclsched.model.operation import Parameter, Signature


@dataclass(frozen=True, slots=True)
class Finish:
    """Steps applied to a sum: ``activation(sum * (s * sx) + b + r)``, quantised as ``quantise`` specifies."""

    scaled: bool = False  # by s; without, the result is the int32 sum
    scaled_twice: bool = False  # by the product of s and of the number sx
    bias: bool = False
    residual: bool = False
    activation: Activation = ()
    quantise: tuple[float, int] | None = None  # scale and zero point of the result
    symmetric: bool = False  # x has no zero point z
    addend: QuantisedAddend | None = None  # how a residual of 8 bits or a vector is added

    def __post_init__(self) -> None:
        if self.addend is not None and not self.residual:
            raise ArgumentError("a quantised addend is a residual")
        if not self.scaled and (self.scaled_twice or self.bias or self.residual or self.activation or self.quantise):
            raise ArgumentError("only a scaled sum is scaled twice, added to, activated or quantised")

    @property
    def has_residual_rows(self) -> bool:
        """Whether there is a residual of the result's shape."""
        return self.residual and (self.addend is None or self.addend.other is not None)

    @property
    def label(self) -> str:
        """Return its part of an operation's name."""
        parts = [
            "symmetric" if self.symmetric else "",
            "scaled twice" if self.scaled_twice else "scaled" if self.scaled else "",
            "bias" if self.bias else "",
            "" if self.addend is None else _label(self.addend),
            "residual" if self.residual and self.addend is None else "",
            act.label(self.activation),
            "to({:.9g},{})".format(*self.quantise) if self.quantise else "",
        ]
        return " ".join(filter(None, parts))

    @property
    def cost(self) -> int:
        """Return the operations counted per element."""
        before = 0 if self.addend is None else 7 + act.cost(self.addend.activation)
        after = act.cost(self.activation) + 3 * bool(self.quantise)
        return 2 * self.scaled + self.scaled_twice + self.bias + self.residual + before + after

    def parameters(self) -> tuple[Parameter, ...]:
        """Return y, x, w, and optionally z (x's zero point), s, b, r and sx (x's scale)."""
        results = tuple(LIMITS) if self.quantise else ("float32",) if self.scaled else ("int32",)
        given: list[tuple[str, bool, tuple[str, ...]]] = [
            ("z", not self.symmetric, ("int32", *LIMITS)),
            ("s", self.scaled, ("float32",)),
            ("b", self.bias, ("float32",)),
            ("r", self.residual, tuple(LIMITS) if self.addend and self.addend.other else ("float32",)),
            ("sx", self.scaled_twice, ("float32",)),
        ]
        return (
            Parameter("y", AccessMode.WRITE, dtypes=results),
            Parameter("x", AccessMode.READ, dtypes=tuple(LIMITS)),
            Parameter("w", AccessMode.READ, dtypes=("int8", "int16")),
            *(Parameter(name, AccessMode.READ, dtypes=dtypes) for name, is_so, dtypes in given if is_so),
        )

    def check(self, signature: Signature, columns: int) -> str | None:
        """Return the error in the shapes of z, s, b, r and sx, or None."""
        shapes = signature.shapes
        one, each = ((), (1,)), (columns,)
        wrong = [name for name in ("z", "sx") if shapes.get(name, ()) not in one]
        if wrong:
            return f"{wrong[0]} is one number, not {shapes[wrong[0]]}"
        if self.scaled and shapes["s"] not in (*one, each):
            return f"s is one number or {each}, not {shapes['s']}"
        if self.bias and shapes["b"] != each:
            return f"b is {each}, not {shapes['b']}"
        if self.residual and shapes["r"] != (added := shapes["y"] if self.has_residual_rows else each):
            return f"r is {added}, not {shapes['r']}"
        return None

    def numpy(self, sums: Any, y: Any, arrays: Any) -> Any:
        """Return the results of sums whose last axis is that of columns; ``arrays`` are s, b, r and sx as such."""
        import numpy as np

        if not self.scaled:
            return sums.astype(np.int32)
        scale = arrays["s"].reshape(-1)
        made = sums.astype(np.float32) * (scale * arrays["sx"].reshape(()) if self.scaled_twice else scale)
        made = made + arrays["b"] if self.bias else made
        if self.addend is not None:
            scale, zero = self.addend.own
            made = _quantised(act.numpy(self.addend.activation, made), self.addend.own, self.addend.dtype)
            made = (made - np.float32(zero)) * np.float32(scale)
            other = arrays["r"].astype(np.float32)
            if self.addend.other is not None:
                scale, zero = self.addend.other
                other = (other - np.float32(zero)) * np.float32(scale)
            made = made + other
        elif self.residual:
            made = made + arrays["r"]
        made = act.numpy(self.activation, made)
        return made if self.quantise is None else _quantised(made, self.quantise, str(y.dtype)).astype(y.dtype)

    @property
    def numbers(self) -> dict[str, float]:
        """Return by name the numbers that the OpenCL C function takes: layers that differ in them share code."""
        found: dict[str, float] = {}
        if self.addend is not None:
            found |= dict(zip(("own_scale", "own_zero"), self.addend.own, strict=True))
            found |= dict(zip(("other_scale", "other_zero"), self.addend.other or (), strict=False))
        return found | dict(zip(("to_scale", "to_zero"), self.quantise or (), strict=False))

    def _activation(self, dtype: str) -> Activation:
        """Return the activation, without a rectifier at its end if no quantised result of this dtype is negative."""
        is_positive = self.quantise is not None and self.quantise[1] == LIMITS[dtype][0]
        return self.activation[:-1] if is_positive and self.activation[-1:] == (("relu",),) else self.activation

    def prepared(self, constants: Mapping[str, Any], columns: int) -> Mapping[str, Any]:
        """Return constants whose scale is one of each column, so that layers with one scale or many share code."""
        if "s" not in constants:
            return constants
        import numpy as np

        return {**constants, "s": np.ascontiguousarray(np.broadcast_to(constants["s"].reshape(-1), (columns,)))}

    def opencl(self, signature: Signature, width: int) -> str:
        """Return the OpenCL C function ``finish<width>`` of the sums of neighbouring columns, constants prepared."""
        dtype = signature.dtypes["y"]
        kind, floats, sums = (vector(each, width) for each in (C_TYPES[dtype], "float", "int"))

        def load(name: str, at: str) -> str:
            return f"vload{width}(0, {name} + {at})" if width > 1 else f"{name}[{at}]"

        lines = []
        if self.scaled:
            is_one = signature.shapes["s"] in ((), (1,)) and "s" not in signature.constants
            scale = "s[0]" if is_one else load("s", "column")
            scale = f"({scale} * sx[0])" if self.scaled_twice else scale
            lines += [f"{floats} v = convert_{floats}(sums) * {scale};"]
            lines += [f"v += {load('b', 'column')};"] if self.bias else []
            lines += self._residual(load("r", "at" if self.has_residual_rows else "column"), floats)
            lines += [act.opencl(self._activation(dtype), "v", "float32", floats if width > 1 else None)]
        if self.quantise is not None:
            lines += _quantising("to_", dtype, floats)
            lines += [f"return convert_{kind}(v);"]
        else:
            lines += ["return v;" if self.scaled else "return sums;"]
        kinds = dict.fromkeys(self._arrays, "float")
        if self.residual:
            kinds["r"] = C_TYPES[signature.dtypes["r"]]
        more = "".join(f", __global const {kinds[name]}* {name}" for name in self._arrays)
        more += "".join(f", const float {name}" for name in self.numbers)
        body = "\n  ".join(filter(None, lines))
        return f"{kind} finish{width}({sums} sums, int column, I at{more}) {{\n  {body}\n}}\n"

    def _residual(self, value: str, floats: str) -> list[str]:
        """Return OpenCL C that adds a residual to ``v``."""
        if self.addend is None:
            return [f"v += {value};"] if self.residual else []
        if self.addend.other is not None:
            value = f"(convert_{floats}({value}) - other_zero) * other_scale"
        return [
            act.opencl(self.addend.activation, "v", "float32", floats if floats != "float" else None),
            *_quantising("own_", self.addend.dtype, floats),
            "v = (v - own_zero) * own_scale;",
            f"v += {value};",
        ]

    @property
    def _arrays(self) -> tuple[str, ...]:
        """Return the names of the arrays that the OpenCL C function reads."""
        names = {"s": self.scaled, "b": self.bias, "r": self.residual, "sx": self.scaled_twice}
        return tuple(name for name, is_so in names.items() if is_so)

    @property
    def arguments(self) -> str:
        """Return the last arguments of the OpenCL C function: the arrays that it reads, and its numbers."""
        return "".join([*(f", {name}" for name in self._arrays), *(f", as_float({name})" for name in self.numbers)])


#: The sums as they are.
SUMS: Final = Finish()


def _label(addend: QuantisedAddend) -> str:
    """Return an addend's part of an operation's name."""
    other = "vector" if addend.other is None else "{:.9g},{}".format(*addend.other)
    numbers = "{:.9g},{}".format(*addend.own), addend.dtype, other
    return " ".join(filter(None, (act.label(addend.activation), f"sum({';'.join(numbers)})")))


def _quantised(values: Any, numbers: tuple[float, float], dtype: str) -> Any:
    """Return numbers rounded to quantised ones, as floats."""
    import numpy as np

    return np.clip(np.rint(values / np.float32(numbers[0])) + np.float32(numbers[1]), *LIMITS[dtype])


def _quantising(of: str, dtype: str, floats: str) -> list[str]:
    """Return OpenCL C that rounds ``v`` to quantised numbers, as floats."""
    low, high = (f"({floats}){literal(limit, 'float32')}" for limit in LIMITS[dtype])
    return [
        f"v = rint(v / {of}scale);",
        f"v += {of}zero;",
        f"v = clamp(v, {low}, {high});",
    ]
