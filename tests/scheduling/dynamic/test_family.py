# SPDX-License-Identifier: Apache-2.0
"""Dynamic policies by name, like static ones."""

from __future__ import annotations

import pytest
from support.instances import layered

from syclsched.errors import PolicyError
from syclsched.scheduling import Policy, PolicyFamily, validate
from syclsched.scheduling.dynamic import DYNAMIC_POLICIES, DynamicPolicies


def test_members_are_policies_that_hold() -> None:
    family = DynamicPolicies()
    problem = layered(40, 3, 2, seed=1)
    assert isinstance(family, PolicyFamily)
    assert family.members(problem) == tuple(f"dynamic:{p.name}" for p in DYNAMIC_POLICIES)
    for name in family.members(problem):
        policy = family.make(name.partition(":")[2])
        assert isinstance(policy, Policy)
        assert policy.name == name
        validate(problem, policy.schedule(problem), policy=name)


def test_large_problems_have_no_members() -> None:
    assert DynamicPolicies().members(layered(1001, 1, 1, seed=1)) == ()


def test_an_unknown_name_lists_the_dynamic_policies() -> None:
    with pytest.raises(PolicyError, match=r"no dynamic policy 'lazy'.*eager, priority, dmdas, stealing"):
        DynamicPolicies().make("lazy")
