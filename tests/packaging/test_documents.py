# SPDX-License-Identifier: Apache-2.0
"""README and pages against the code: commands, examples, topics, errors, pins and public names."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import syclsched
from syclsched import errors

Run = Callable[..., str]
ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def tool(name: str) -> ModuleType:
    """Import a script of tools/."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readme_has_the_two_commands() -> None:
    commands = tool("readme_command").commands(text("README.md"))
    assert set(commands) == {"main", "tests"}
    for command in commands.values():
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert " -m syclsched profile && " in commands["main"]
    assert " -m syclsched run cholesky " in commands["main"]
    assert commands["tests"].endswith(" -m pytest -n 2 --dist worksteal")


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ("<!-- command: x -->\n```sh\none\ntwo\n```\n<!-- end -->", "2 lines"),
        ("<!-- command: x -->\n```sh\none\n```\n<!-- end -->\n" * 2, "twice"),
    ],
)
def test_missing_or_repeated_commands_are_reported(document: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        tool("readme_command").commands(document)


def test_the_readme_shows_the_first_example() -> None:
    source = text("examples/first_graph.py").split('"""', 2)[2].strip()
    assert f"```python\n{source}\n```" in text("README.md")


@pytest.mark.sycl
def test_the_first_example_prints_the_output_in_the_readme(run: Run) -> None:
    printed = run(sys.executable, "examples/first_graph.py", cwd=ROOT)
    assert f"```text\n{printed.strip()}\n```" in text("README.md")


def test_troubleshooting_has_every_topic_of_the_doctor() -> None:
    sources = [
        *(ROOT / "syclsched" / "oneapi" / "diagnosis").glob("*.py"),
        ROOT / "syclsched" / "profiling" / "storage" / "store_check.py",
    ]
    topics = {
        node.args[0].value
        for source in sources
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding" and node.args
        if isinstance(node.args[0], ast.Constant)
    }
    assert len(topics) > 5
    assert topics == set(re.findall(r"^### (.+)$", text("docs/how-to/troubleshooting.md"), re.MULTILINE))


def test_troubleshooting_has_every_error() -> None:
    known = {n for n, v in vars(errors).items() if isinstance(v, type) and issubclass(v, errors.SyclschedError)}
    described = set(re.findall(r"^\| `(\w+)` \|", text("docs/how-to/troubleshooting.md"), re.MULTILINE))
    assert described == known - {"SyclschedError"}


def test_the_reference_has_every_public_name() -> None:
    described = set(re.findall(r"^\.\. auto\w+:: syclsched\.(\w+)$", text("docs/reference/api.md"), re.MULTILINE))
    assert described == set(syclsched.__all__) - {"__version__"}


def test_the_first_page_names_the_version() -> None:
    first = text("docs/index.md").split("\n\n")[1]
    assert f"version **{syclsched.__version__}**" in first


def test_dependencies_are_explained() -> None:
    backend, page = tool("build_backend/generation_backend"), text("docs/dependencies.md")
    for generation in backend.GENERATIONS:
        backend._chosen = generation
        required = [*backend.dependencies(), *(each for extra in ("onnx", "exact") for each in backend.extras()[extra])]
        assert len(required) > 20
        for each in required:
            name, pin, version = re.fullmatch(r"([\w-]+)(==)?(.*)", each).groups()
            assert f"`{name}`" in page
            assert not pin or f"| `{name}` | {version} |" in page


def test_the_doctors_generations_are_the_projects() -> None:
    from syclsched.oneapi.stack_generation import GENERATIONS

    backend = tool("build_backend/generation_backend")
    assert [each.name for each in GENERATIONS] == list(backend.GENERATIONS)
    for each in GENERATIONS:
        table = backend.GENERATIONS[each.name]
        required = [*table["dependencies"], *table["extra-onnx"]]
        pinned = dict(requirement.split("==") for requirement in required if "==" in requirement)
        assert {name: each.pins.get(name) for name in pinned if name != "tbb"} == {
            name: version for name, version in pinned.items() if name != "tbb"
        }
        assert set(each.top_level) <= pinned.keys()
        assert each.numpy_requirement in required
        assert table["newest-python"] == "{}.{}".format(*each.pythons[1])


def test_the_command_line_page_is_up_to_date() -> None:
    assert text("docs/reference/cli.md") == tool("cli_docs").page(), "run python tools/cli_docs.py"


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_the_documents_exist(page: str) -> None:
    sections = dict(re.findall(r"^## ([\w ]+)\n(.*?)(?=^## |\Z)", tool("cli_docs").page(), re.MULTILINE | re.DOTALL))
    for line in re.findall(r"-m syclsched ([a-z][^`\n#&]*)", text(page)):
        command, *words = line.split()
        if command not in sections and words:
            command = f"{command} {words.pop(0)}"
        assert command in sections, line
        unknown = [w for w in words if w.startswith("--") and f"`{w}" not in sections[command]]
        assert unknown == [], line


@pytest.mark.parametrize("page", PAGES)
def test_links_to_files_exist(page: str) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", text(page))
    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []


def test_the_design_page_draws_the_layers_that_are_checked() -> None:
    assert text("docs/pictures/layers.svg") == tool("layers").picture(), "run python tools/layers.py --write"


def test_every_picture_has_its_source_and_its_page() -> None:
    assert tool("pictures").complaints() == []


def test_no_folder_is_overfull() -> None:
    folders = Counter(path.parent for top in ("syclsched", "kernels") for path in (ROOT / top).rglob("*.py"))
    folders += Counter(path.parent for path in (ROOT / "docs").rglob("*.md"))
    assert {str(folder): count for folder, count in folders.items() if count > 17} == {}
