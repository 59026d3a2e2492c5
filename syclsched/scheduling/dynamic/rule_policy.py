# SPDX-License-Identifier: Apache-2.0
"""Base of dynamic policies that are written once: one rule, run as Python or compiled.

A rule is a compiled function of a run's state. It reads the state and adds decisions by the operations of
`syclsched.scheduling.dynamic.compiled.operations` alone, beside the fields `known`, `ready` and `released_by`, which
are indexed alike in both states. In a live run it runs compiled, on a `RunState`. On the virtual clock, and where a run
is decided in Python, the same code runs uncompiled, on a `PolicyState`: each operation is then replaced by its Python
form, so that nothing is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any, ClassVar, ParamSpec, TypeVar

from syclsched.compiled import lean
from syclsched.scheduling.dynamic.policy_state import Decision, DynamicPolicy, PolicyState

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: The Python form of each operation, and of each rule that has been used.
_IN_PYTHON: dict[Any, Callable[..., Any]] = {}


def operation(in_python: Callable[..., Any]) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Compile an operation on a `RunState`, and register its form for a `PolicyState`."""

    def register(function: Callable[_P, _R]) -> Callable[_P, _R]:
        made = lean(function)
        _IN_PYTHON[made] = in_python
        return made

    return register


def in_python(rule: Any) -> Callable[..., Any]:
    """Return a compiled rule as a Python function of a `PolicyState`; nothing is compiled."""
    if rule not in _IN_PYTHON:
        text = rule.py_func
        scope = dict(text.__globals__)
        for name in text.__code__.co_names:
            if hasattr(scope.get(name), "py_func"):
                scope[name] = in_python(scope[name])
        _IN_PYTHON[rule] = FunctionType(text.__code__, scope, text.__name__)
    return _IN_PYTHON[rule]


class RulePolicy(DynamicPolicy):
    """Dynamic policy that decides by a rule; see `syclsched.scheduling.dynamic.policies` for examples.

    A subclass has a name, `sorts_queues`, `prepare` (see `DynamicPolicy`) and a rule. The rule is called again until it
    adds no decision.
    """

    __slots__ = ()
    #: A compiled function that adds decisions to a state, its first argument; the second are the parameters.
    rule: ClassVar[Any]

    @property
    def parameters(self) -> tuple[float, ...]:
        """Numbers that the rule depends on."""
        return ()

    @property
    def replans_above(self) -> float:
        """Deviation from the plan above which the remaining tasks are planned anew during a run; infinity for never."""
        return math.inf

    def decide(self, state: PolicyState) -> list[Decision]:
        """Return the decisions of the rule."""
        decisions = state.decisions = []
        in_python(self.rule)(state, self.parameters)
        return decisions


def policy_with_rule(policy: DynamicPolicy) -> RulePolicy | None:
    """Return a policy if it decides by its rule alone, so that compiled code can decide for it."""
    return policy if isinstance(policy, RulePolicy) and type(policy).decide is RulePolicy.decide else None
