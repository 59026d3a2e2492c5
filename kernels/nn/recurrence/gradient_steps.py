# SPDX-License-Identifier: Apache-2.0
"""OpenCL C of one step back through a recurrent layer, element by element; and the host's, with NumPy."""

from __future__ import annotations

from typing import Any, Final

#: The arrays that a kernel writes.
WRITTEN: Final = ("d", "dx", "dh0", "dc0")
#: Cell -> ranges of gates whose products with the recurrent weights are computed one after another.
PHASES: Final = {"rnn": ((0, 1),), "lstm": ((0, 4),), "gru": ((2, 3), (0, 2)), "gru_linear": ((0, 3),)}


def first_part(cell: str, hidden: int, *, keeps: bool, state: str, carried: str) -> str:
    """Return statements from a state's gradient to those of the gates' sums that follow from it alone.

    They use the macros ``V`` (a type), ``LD`` and ``ST``, the index ``j`` of a hidden unit, the place ``at`` of its
    row, and the row ``g`` of ``d`` and ``gx`` of ``dx``. ``base`` is then the part of the previous state's gradient
    that is no product, and of an LSTM ``c`` the gradient of the previous cell.
    """

    def by(total: str, gate: int) -> str:
        return f"{total} * LD(k{gate} + at + j)"

    lines = [f"const V s = {state} + LD(dy + at + j);"]
    if cell == "lstm":
        lines.append(f"V c = {carried} + s * LD(through + at + j);")
        lines += [f"ST(g + {gate * hidden} + j, {by('s' if gate == 3 else 'c', gate)});" for gate in range(4)]
        lines.append("c *= LD(forget + at + j);")
    elif cell == "gru_linear":
        for gate in range(3):
            made = f"d{gate} * LD(reset + at + j)" if gate == 2 else f"d{gate}"
            lines.append(f"const V d{gate} = {by('s', gate)};")
            lines.append(f"ST(gx + {gate * hidden} + j, d{gate}); ST(g + {gate * hidden} + j, {made});")
    else:
        gates = (0, 2) if cell == "gru" else (0,)
        lines += [f"ST(g + {gate * hidden} + j, {by('s', gate)});" for gate in gates]
    lines.append(f"const V base = {'s * LD(keep + at + j)' if keeps else '(V)0'};")
    return " ".join(lines)


def reset_part(hidden: int, part: str, base: str) -> str:
    """Return statements of a ``gru`` from the gradient of the state after its reset gate; ``kept`` is the new base."""
    return (
        f"const V p = {part}; ST(g + {hidden} + j, p * LD(k1 + at + j)); "
        f"const V kept = {base} + p * LD(reset + at + j);"
    )


def host(*, cell: str, reverse: bool, d: Any, dh0: Any, dy: Any, r: Any, dh: Any, **a: Any) -> None:
    """Compute all steps with NumPy."""
    steps, _, hidden = dy.shape
    state, carried = dh.copy(), a["dc"].copy() if cell == "lstm" else None
    k = [a[f"k{gate}"] for gate in range(len(r) // hidden)]

    def product(at: int, gates: tuple[int, int]) -> Any:
        begin, end = (gate * hidden for gate in gates)
        return d[at][:, begin:end] @ r[begin:end]

    for at in range(steps)[:: 1 if reverse else -1]:
        state = state + dy[at]
        gate = [d[at][:, i * hidden : (i + 1) * hidden] for i in range(len(k))]
        base = state * a["keep"][at] if "keep" in a else 0
        if cell == "lstm":
            carried = carried + state * a["through"][at]
            for i in range(4):
                gate[i][...] = (state if i == 3 else carried) * k[i][at]
            carried = carried * a["forget"][at]
        else:
            for i in range(len(k)):
                gate[i][...] = state * k[i][at]
        if cell == "gru_linear":
            a["dx"][at] = d[at]
            gate[2][...] *= a["reset"][at]
        if cell == "gru":
            part = product(at, PHASES[cell][0])
            gate[1][...] = part * k[1][at]
            base = base + part * a["reset"][at]
        state = base + product(at, PHASES[cell][-1])
    dh0[...] = state
    if cell == "lstm":
        a["dc0"][...] = carried
