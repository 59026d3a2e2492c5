# SPDX-License-Identifier: Apache-2.0
"""Call of a policy's rule through its address, by an event loop that was compiled without the rule.

The loops of the package's own policies contain the rule. For the rule of another policy, numba would compile a whole
loop, for a minute; the rule alone takes some seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from syclsched.compiled import lean, specialised
from syclsched.compiled.passed_tuples import (
    address_in_compiled_code,
    address_of,
    call_compiled,
    number_behind,
    tuple_at,
    type_for_tuple_at,
)
from syclsched.scheduling.dynamic.compiled.run_state import RunState
from syclsched.scheduling.tables import Floats


@lean
def call_rule(state: RunState, parameters: Floats) -> None:
    """Call the rule whose address lies behind the parameters; a rule itself."""
    call_compiled(number_behind(parameters), address_of(state))


def with_address(parameters: Floats, address: int) -> Floats:
    """Return parameters with a rule's address behind them, where the rule does not see it."""
    return np.append(parameters, float(address))[:-1]


#: By rule: its address, and the compiled function, which must stay alive. States of runs are all of the same types.
_COMPILED: dict[Any, tuple[int, Any]] = {}


def address_of_rule(rule: Callable[[Any, Any], None], state: RunState) -> int:
    """Compile a rule, unless that was done before, and return its address for `call_rule`."""
    if rule not in _COMPILED:
        entry = _entry_of(rule, type_for_tuple_at(state))
        _COMPILED.setdefault(rule, (address_in_compiled_code(entry), entry))
    return _COMPILED[rule][0]


def _entry_of(rule: Callable[[Any, Any], None], kind: Any) -> Any:
    def entry(address: int) -> int:
        state = tuple_at(address, kind)
        rule(state, state.parameters)
        return 1

    return specialised(entry, rule)
