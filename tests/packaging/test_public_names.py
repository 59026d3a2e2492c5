# SPDX-License-Identifier: Apache-2.0
"""Public names: existing, documented, and known to type checkers and tab completion."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from pathlib import Path

import pytest

import syclsched
from syclsched import tracing

NAMES = sorted(set(syclsched.__all__) - {"__version__"})


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(syclsched, name)
    documented = inspect.getdoc(value)
    assert documented
    assert len(documented) > 20


@pytest.mark.parametrize("name", [n for n in NAMES if inspect.isclass(getattr(syclsched, n))])
def test_the_methods_of_a_public_class_are_documented(name: str) -> None:
    public = {n: value for n, value in vars(getattr(syclsched, name)).items() if not n.startswith("_")}
    methods = {n: m for n, m in public.items() if inspect.isroutine(m) or isinstance(m, property)}
    assert not [n for n, m in methods.items() if not inspect.getdoc(m)]


def test_dir_lists_the_public_names() -> None:
    assert dir(syclsched) == sorted(syclsched.__all__)


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(syclsched.__file__).read_text(encoding="utf-8"))
    (block,) = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    seen = {
        alias.asname or alias.name: statement.module
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert sorted(seen) == NAMES
    for name, module in seen.items():
        assert module is not None
        assert getattr(importlib.import_module(module), name) is getattr(syclsched, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = syclsched.nonsense


def test_the_version_is_the_projects() -> None:
    project = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{syclsched.__version__}"\n' in project


#: Packages whose modules are public although they have no ``__all__``.
PUBLIC = {"model", "testing", "scheduling/policies", "kernels/tensor", "kernels/linalg"}


def test_every_package_declares_its_public_names() -> None:
    root = Path(__file__).resolve().parents[2]
    for top in (root / "syclsched", root / "kernels"):
        for init in top.rglob("__init__.py"):
            name = str(init.parent.relative_to(root)).removeprefix("syclsched/")
            text = init.read_text(encoding="utf-8")
            assert "__all__" in text or name in PUBLIC or "Internal." in (ast.get_docstring(ast.parse(text)) or ""), (
                name
            )


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("syclsched.execution.stream", "syclsched.execution", "Stream"),
        ("syclsched.scheduling.refine", "syclsched.scheduling.search", "refine"),
    ],
)
def test_old_module_works_with_a_warning(monkeypatch: pytest.MonkeyPatch, old: str, new: str, name: str) -> None:
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match=rf"{name} and \w+ from {new}$"):
        module = importlib.import_module(old)
    assert getattr(module, name) is getattr(importlib.import_module(new), name)


def test_an_old_name_works_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="Report is called RunReport now"):
        assert tracing.Report is tracing.RunReport
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = tracing.Nothing
