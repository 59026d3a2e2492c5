# SPDX-License-Identifier: Apache-2.0
"""The same small programs in several libraries: lines of code and times, each measured in fresh processes in turns.

    python benchmarks/side_by_side.py [--rounds 3] [--runs 7] [--starpu FOLDER] [--write]
    python benchmarks/side_by_side.py --check

The programs are in benchmarks/comparison/LIBRARY/PROGRAM.py; the same file beside it solves one with a check against
NumPy (problems.py). In each round every program runs in a process of its own, the libraries in turns and in both
orders. *First* is the time from the start of the process to the first result: Python, imports, compilation, planning.
*Later* is the median of further runs in that process. Of both, the median over the rounds is given with the least and
the largest, and for later runs the ratio to that of syclsched. *Very first* is the first run with empty cache and data
folders, once.

Dask and joblib are installed by ``pip install -r benchmarks/comparison/requirements.txt``, StarPU's Python only with
StarPU built from source: ``--starpu`` names its installation folder. A library that is missing is left out, and the
table says so. ``--write`` puts the tables into docs/comparison.md; ``--check`` fails if the lines there are not those
of the programs.
"""

from __future__ import annotations

import ast
import datetime
import importlib.metadata
import importlib.util
import io
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import tokenize
from collections.abc import Mapping
from pathlib import Path

from common import parser

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "benchmarks" / "comparison"
PAGE = ROOT / "docs" / "comparison.md"
#: The programs in the order of the page, and the names of the libraries.
NAMES = ("pipeline", "product", "sweep", "sweep_kernel", "stream", "described")
LIBRARIES = {"syclsched": "syclsched", "dask": "Dask", "joblib": "joblib", "dpctl": "dpctl", "starpu": "StarPU"}
_LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def lines_of(source: str) -> tuple[int, int]:
    """Return the lines of code of a program and of its imports, without blank lines, comments and docstrings."""
    tree = ast.parse(source)
    without: set[int] = set()
    imports: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            text = node.body[0]
            without.update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    blank = {number for number, line in enumerate(source.splitlines(), 1) if not line.strip()}
    return len(code - without - imports - blank), len(imports)


def programs() -> dict[str, dict[str, Path]]:
    """Return the programs by name, then by library."""
    found: dict[str, dict[str, Path]] = {}
    for name in NAMES:
        files = {library: PROGRAMS / library / f"{name}.py" for library in LIBRARIES}
        found[name] = {library: path for library, path in files.items() if path.is_file()}
    return found


def lines_table() -> str:
    """Return the table of lines of code."""
    rows = ["| Program | " + " | ".join(LIBRARIES.values()) + " |", "|---|" + "---:|" * len(LIBRARIES)]
    for name, files in programs().items():
        cells = []
        for library in LIBRARIES:
            if library in files:
                code, imports = lines_of(files[library].read_text(encoding="utf-8"))
                cells.append(f"[{code} + {imports}](../benchmarks/comparison/{library}/{name}.py)")
            else:
                cells.append("")
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def environment_of(library: str, starpu: str) -> dict[str, str] | None:
    """Return the environment variables of a library's programs; none if the library is not installed."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    path = [str(PROGRAMS)]
    if library == "starpu":
        packages = next(iter(Path(starpu).glob("lib/python*/site-packages")), None) if starpu else None
        if packages is None:
            return None
        path.append(str(packages))
        variables |= {"LD_LIBRARY_PATH": f"{starpu}/lib", "STARPU_SILENT": "1"}
    elif library == "syclsched":
        path.append(str(ROOT))
    elif not _installed(library):
        return None
    if library == "dpctl":  # pip's packages do not find each other's libraries; syclsched itself needs no variables
        libraries = Path(sys.prefix) / "lib"
        variables |= {"LD_LIBRARY_PATH": str(libraries), "OCL_ICD_FILENAMES": str(libraries / "libintelocl.so")}
    return {**variables, "PYTHONPATH": os.pathsep.join(path)}


def timed(program: Path, variables: Mapping[str, str], runs: int) -> tuple[float, float]:
    """Return the seconds to the first result of a program in a process of its own, and of a later run."""
    said = {**variables, "COMPARISON": f"{time.time()} {runs}"}
    ended = subprocess.run([sys.executable, str(program)], env=said, capture_output=True, text=True, check=False)
    lines = ended.stdout.splitlines()
    if ended.returncode or not lines:
        raise SystemExit(f"{program.relative_to(ROOT)} failed:\n{ended.stdout}{ended.stderr}")
    result = next(json.loads(line) for line in lines if line.startswith("{"))
    return result["first_s"], statistics.median(result["times_s"])


def circumstances(rounds: int, runs: int, load_before: float) -> str:
    """Return a line about the machine, its load, and the versions."""
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    processor = re.search(r"model name\s*: (.*)", cpuinfo)
    packages = ("numpy", "numba", "dpctl", "dask", "joblib")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages if _installed(name))
    return (
        f"{datetime.date.today()}, {os.cpu_count()} cores of {processor[1] if processor else 'an unknown processor'}, "
        f"load {load_before:.1f} before and {os.getloadavg()[0]:.1f} after; Python {sys.version.split()[0]}, "
        f"{versions}; {rounds} processes of {runs} later runs each."
    )


def _installed(name: str) -> bool:
    """Return whether a library is installed; a folder of programs for it is not."""
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None


def very_first(program: Path, variables: Mapping[str, str]) -> float:
    """Return the seconds to the first result with empty folders of caches and data."""
    with tempfile.TemporaryDirectory() as empty:
        folders = dict.fromkeys(("XDG_CACHE_HOME", "XDG_DATA_HOME", "HOME", "NUMBA_CACHE_DIR"), empty)
        return timed(program, {**variables, **folders}, 1)[0]


def times_tables(rounds: int, runs: int, starpu: str, chosen: list[str]) -> str:
    """Measure all programs and return a table for each."""
    environments = {library: environment_of(library, starpu) for library in LIBRARIES}
    load_before = os.getloadavg()[0]
    found: list[str] = []
    for name, files in programs().items():
        if name not in chosen:
            continue
        present = {library: path for library, path in files.items() if environments[library] is not None}
        firsts: dict[str, list[float]] = {library: [] for library in present}
        laters: dict[str, list[float]] = {library: [] for library in present}
        empty: dict[str, float] = {}
        for turn in range(rounds):
            for library in present if turn % 2 == 0 else [*present][::-1]:
                variables = environments[library]
                assert variables is not None
                if turn == 0:
                    empty[library] = very_first(present[library], variables)
                first_s, later_s = timed(present[library], variables, runs)
                firsts[library].append(first_s)
                laters[library].append(later_s)
                print(f"{name} {library}: first {first_s:.2f} s, later {later_s * 1e3:.1f} ms", flush=True)
        base = statistics.median(laters["syclsched"])
        rows = [
            f"### {name}",
            "",
            "| | very first, s | first, s | later, ms | ratio |",
            "|---|---:|---:|---:|---:|",
        ]
        for library in files:
            if library not in present:
                rows.append(f"| {LIBRARIES[library]} | not installed | | | |")
                continue
            later = [1e3 * each for each in laters[library]]
            rows.append(
                f"| {LIBRARIES[library]} | {empty[library]:.1f} | {_spread(firsts[library], 1)} | {_spread(later, 1)} "
                f"| {statistics.median(laters[library]) / base:.2f} |"
            )
        found.append("\n".join(rows))
    return "\n\n".join([circumstances(rounds, runs, load_before), *found])


def _spread(values: list[float], digits: int) -> str:
    middle, least, most = statistics.median(values), min(values), max(values)
    return f"{middle:.{digits}f} ({least:.{digits}f} to {most:.{digits}f})"


def marked(text: str, mark: str) -> str:
    """Return the part of the page between the markers."""
    return _part(mark).search(text)[2]  # type: ignore[index]


def written(text: str, mark: str, new: str) -> str:
    """Return the page with another part between the markers."""
    return _part(mark).sub(lambda match: f"{match[1]}{new}{match[3]}", text)


def _part(mark: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {mark}: benchmarks/side_by_side.py -->\n\n)(.*?)(\n\n<!-- end -->)", re.DOTALL)


def main() -> int:
    """Check the page, or measure and print or write the tables."""
    options = parser(
        __doc__, rounds=3, runs=7, starpu="", programs=list(NAMES), write=False, lines=False, check=False
    ).parse_args()
    page = PAGE.read_text(encoding="utf-8")
    if options.check:
        same = marked(page, "lines") == lines_table()
        print(
            "the lines of code are those of the programs" if same else "run benchmarks/side_by_side.py --lines --write"
        )
        return 0 if same else 1
    page = written(page, "lines", lines_table())
    if not options.lines:
        tables = times_tables(options.rounds, options.runs, options.starpu, options.programs)
        print(tables)
        page = written(page, "times", tables)
    if options.write:
        PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
