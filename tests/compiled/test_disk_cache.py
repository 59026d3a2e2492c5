# SPDX-License-Identifier: Apache-2.0
"""Disk cache of machine code: reuse, and recompilation after a change of any input."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from syclsched.compiled import compiled, disk_cache, lean, source_stamps
from syclsched.compiled.disk_cache import CacheFile


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package in which ``outer`` imports ``inner``, and ``other`` stands alone."""
    folder = tmp_path / "syclsched"
    (folder / "room").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "room" / "__init__.py").write_text("from syclsched.room.inner import f\n")
    (folder / "room" / "inner.py").write_text("@compiled\ndef f(): return 1\n")
    (folder / "room" / "plain.py").write_text("def text(): return 'a'\n")
    (folder / "outer.py").write_text(
        "from syclsched.room import f\nimport syclsched.room.plain\n@lean\ndef g(): return f()\n"
    )
    (folder / "other.py").write_text("@compiled\ndef h(): return 2\n")
    monkeypatch.setattr(source_stamps, "_PACKAGE", folder)
    forget()
    yield folder
    forget()


def forget() -> None:
    for each in (source_stamps.stamp_of_file, source_stamps._read, source_stamps._module):
        each.cache_clear()


def test_a_change_in_a_called_function_changes_the_stamp(package: Path) -> None:
    before = {name: source_stamps.stamp_of_file(package / name) for name in ("outer.py", "other.py")}
    (package / "room" / "inner.py").write_text("@compiled\ndef f(): return 3\n")
    forget()
    after = {name: source_stamps.stamp_of_file(package / name) for name in ("outer.py", "other.py")}
    assert before["outer.py"] != after["outer.py"]
    assert before["other.py"] == after["other.py"]


def test_a_change_in_how_functions_are_compiled_is_seen(package: Path) -> None:
    (package / "compiled").mkdir()
    (package / "compiled" / "dispatchers.py").write_text("from syclsched.compiled.tuples import model\n")
    (package / "compiled" / "__init__.py").write_text("")
    (package / "compiled" / "tuples.py").write_text("def model(): return 1\n")
    before = source_stamps.stamp_of_file(package / "other.py")
    (package / "compiled" / "tuples.py").write_text("def model(): return 2\n")
    forget()
    assert source_stamps.stamp_of_file(package / "other.py") != before


def test_a_change_in_an_unrelated_file_keeps_the_stamp(package: Path) -> None:
    before = source_stamps.stamp_of_file(package / "outer.py")
    (package / "room" / "plain.py").write_text("def text(): return 'b'\n")
    forget()
    assert source_stamps.stamp_of_file(package / "outer.py") == before


def test_functions_compile_without_a_writable_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache._Implementation, "_locator_classes", ())

    @compiled
    def total(values: np.ndarray) -> float:  # type: ignore[type-arg]
        result = 0.0
        for value in values:
            result += value
        return result

    @lean
    def double(value: float) -> float:
        return 2.0 * value

    assert total(np.arange(4.0)) == 6.0
    assert double(3.0) == 6.0


def files(folder: Path, stamp: str = "now") -> CacheFile:
    return CacheFile(str(folder), "f-1.py311", stamp)


def test_concurrent_saves_of_two_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = files(tmp_path), files(tmp_path)
    one.save("floats", "code for floats")
    with monkeypatch.context() as early:
        early.setattr(other, "_load_index", dict)  # The earlier lookup was made before the entry existed.
        other.save("integers", "code for integers")
    assert files(tmp_path).load("integers") == "code for integers"
    assert files(tmp_path).load("floats") in (None, "code for floats")


def test_code_of_changed_sources_is_not_loaded_and_removed(tmp_path: Path) -> None:
    files(tmp_path, "before").save("floats", "old code")
    assert files(tmp_path).load("floats") is None
    files(tmp_path).save("floats", "new code")
    assert files(tmp_path).load("floats") == "new code"
    assert len(list(tmp_path.glob("*.nbc"))) == 1


def test_code_that_was_loaded_during_an_interrupt_can_be_called(tmp_path: Path) -> None:
    (tmp_path / "total.py").write_text(
        textwrap.dedent("""
            from syclsched.compiled import compiled

            @compiled
            def total(values):
                result = 0.0
                for value in values:
                    result += value
                return result
        """)
    )
    (tmp_path / "main.py").write_text(
        textwrap.dedent("""
            import signal, sys
            import numpy as np
            from numba.core.codegen import CPUCodeLibrary

            asked = CPUCodeLibrary._object_getbuffer_hook.__func__

            to_come = [signal.SIGINT]

            def interrupted(cls, module):
                if module.name == "total" and to_come:
                    to_come.clear()
                    signal.raise_signal(signal.SIGINT)
                return asked(cls, module)

            if sys.argv[1] == "interrupted":
                CPUCodeLibrary._object_getbuffer_hook = classmethod(interrupted)

            from total import total

            try:
                total(np.arange(4.0))
            except KeyboardInterrupt:
                print("interrupted")
            print(total(np.arange(4.0)))
        """)
    )
    said = [
        subprocess.run([sys.executable, "main.py", how], cwd=tmp_path, capture_output=True, text=True, check=False)
        for how in ("quietly", "interrupted")
    ]
    assert [(run.returncode, run.stdout.split()) for run in said] == [(0, ["6.0"]), (0, ["interrupted", "6.0"])]


def test_specialised_copies_are_cached_by_their_called_functions(tmp_path: Path) -> None:
    """A second process compiles nothing; a change of one called function recompiles its copy, and no other."""
    rule = "from syclsched.compiled import lean\n\n@lean\ndef rule(x):\n    return x {}\n"
    (tmp_path / "one.py").write_text(rule.format("+ 1"))
    (tmp_path / "two.py").write_text(rule.format("* 10"))
    (tmp_path / "main.py").write_text(
        textwrap.dedent("""
            import one, two
            from syclsched.compiled import lean, specialised

            def twice_of(rule):
                def twice(x):
                    return rule(rule(x))
                return specialised(twice, rule)

            def outer_of(rule):
                twice = twice_of(rule)
                def outer(x):
                    return 1000 + twice(x)
                return specialised(outer, twice)

            for module in (one, two):
                outer = outer_of(module.rule)
                print(outer(3), len(outer.dispatcher.stats.cache_misses))
        """)
    )

    def said() -> list[str]:
        made = subprocess.run([sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
        return made.stdout.splitlines()

    assert said() == ["1005 1", "1300 1"]
    assert said() == ["1005 0", "1300 0"]
    (tmp_path / "two.py").write_text(rule.format("* 100"))
    assert said() == ["1005 0", "31000 1"]


def test_an_index_that_names_a_class_that_is_gone_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = CacheFile(cache_path=str(tmp_path), filename_base="f", source_stamp="old")
    gone = type("Gone", (), {"__module__": __name__, "__qualname__": "Gone"})
    monkeypatch.setitem(globals(), "Gone", gone)
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or disk_cache)
    monkeypatch.setattr(sys.modules[__name__], "Gone", gone, raising=False)
    file.save(("key", gone), b"machine code")
    assert file._load_index()
    monkeypatch.delattr(sys.modules[__name__], "Gone")
    assert file._load_index() == {}
    file.save("key", b"other code")
    assert list(file._load_index()) == ["key"]


def test_code_that_others_may_have_written_is_not_loaded(tmp_path: Path) -> None:
    program = textwrap.dedent(
        f"""
        import sys
        sys.path.insert(0, {str(Path(disk_cache.__file__).parents[2])!r})
        from syclsched.compiled import compiled

        @compiled
        def twice(value):
            return 2.0 * value

        assert twice(2.0) == 4.0
        print(sum(twice.dispatcher.stats.cache_hits.values()))
        """
    )
    source, cache = tmp_path / "program.py", tmp_path / "cache"
    source.write_text(program)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "XDG_CACHE_HOME": str(tmp_path / "user")}

    def hits(mode: int) -> tuple[str, str]:
        for each in (cache, source.parent / "__pycache__", tmp_path / "user"):
            each.mkdir(exist_ok=True)
            each.chmod(mode)
        ended = subprocess.run(
            [sys.executable, str(source)], env=environment, capture_output=True, text=True, timeout=300, check=True
        )
        return ended.stdout.strip(), ended.stderr

    assert hits(0o700)[0] == "0"
    assert hits(0o700)[0] == "1"
    told, said = hits(0o777)
    assert told == "0"
    assert f"nothing is loaded from a cache folder: {cache} can be written to by everyone" in said
