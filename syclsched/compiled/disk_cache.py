# SPDX-License-Identifier: Apache-2.0
"""On-disk cache of numba's machine code, valid as long as all its sources are unchanged; safe for several processes."""

from __future__ import annotations

import glob
import hashlib
import pickle
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba
from numba.core import caching

from syclsched.compiled.source_stamps import compiled_in_closure, stamp_of, stamp_of_file
from syclsched.folder_trust import may_load_from
from syclsched.interrupts import interrupts_deferred


def cache_on_disk(dispatcher: Any, prefix: str = "") -> Any:
    """Cache a function's machine code on disk, in files whose names begin like this, if a folder can be written."""
    # numba's own cache checks only the file that a function stands in, so it would keep using old code after a change
    # of a called function in another file. This one checks all compiled code that its imports reach.
    try:
        dispatcher._cache = _Cache(dispatcher.py_func, prefix)
    except RuntimeError:
        return dispatcher  # no writable folder: every process compiles
    return dispatcher


@lru_cache(maxsize=1024)
def _is_trusted(folder: Path, beside: Path | None) -> bool:
    return may_load_from(folder, beside)


def _locator(name: str) -> Any:
    """Return a class of numba's that finds cache folders; in numba 0.59 their names begin with an underscore."""
    return getattr(caching, name, None) or getattr(caching, f"_{name}")


class _SourceStamp:
    """Locator mix-in: a cache entry is valid as long as all code that may be compiled into it is unchanged."""

    def get_source_stamp(self) -> str:
        return stamp_of_file(Path(self._py_file))  # type: ignore[attr-defined]

    def ensure_cache_path(self) -> None:
        """Refuse a folder that others can write to: what numba finds in it is executed."""
        super().ensure_cache_path()  # type: ignore[misc]
        if not _is_trusted(Path(self.get_cache_path()), self._source_folder()):  # type: ignore[attr-defined]
            raise PermissionError("others can write to the cache folder")

    def _source_folder(self) -> Path | None:
        """Return the folder of the source if the cache is beside it."""
        return None


class _InTree(_SourceStamp, _locator("InTreeCacheLocator")):  # type: ignore[misc]
    """Cache beside the source; the checkout, or the installation, may belong to another user."""

    def _source_folder(self) -> Path:
        return Path(self._py_file).parent


class _Provided(_SourceStamp, _locator("UserProvidedCacheLocator")):  # type: ignore[misc]
    """Cache in the folder that ``NUMBA_CACHE_DIR`` names."""


class _UserWide(_SourceStamp, _locator("UserWideCacheLocator")):  # type: ignore[misc]
    """Cache in the user's cache folder."""


class _Implementation(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Provided, _InTree, _UserWide)


class CacheFile(caching.IndexDataCacheFile):  # type: ignore[misc]
    """Cached machine code of one function for all its argument types; safe for concurrent processes."""

    # numba numbers the files, and an index maps argument types to numbers. If two processes save code for different
    # types at once, the index of one names the code of the other, which is then called with wrong types. Here a file's
    # name is a digest of its key: two processes can only lose an index entry, which costs one more compilation.
    def __init__(self, cache_path: str, filename_base: str, source_stamp: str) -> None:
        super().__init__(cache_path=cache_path, filename_base=filename_base, source_stamp=source_stamp)
        self._base = filename_base

    def _load_index(self) -> dict[Any, str]:
        # The index of an older version of the code may name classes that are gone: then it is stale, too.
        try:
            return dict(super()._load_index())
        except (AttributeError, ImportError, EOFError, TypeError, ValueError, pickle.UnpicklingError):
            return {}

    def save(self, key: Any, data: Any) -> None:
        """Store machine code under a key, and delete files that the index no longer names."""
        digest = hashlib.sha256(repr((self._source_stamp, key)).encode()).hexdigest()[:24]
        name = f"{self._base}.{digest}.nbc"
        self._save_data(name, data)
        overloads = {**self._load_index(), key: name}
        self._save_index(overloads)
        for file in Path(self._cache_path).glob(f"{glob.escape(self._base)}.*.nbc"):
            if file.name not in overloads.values():
                file.unlink(missing_ok=True)


class _Cache(caching.FunctionCache):  # type: ignore[misc]
    _impl_class = _Implementation

    def __init__(self, function: Any, prefix: str) -> None:
        super().__init__(function)
        self._cache_file = CacheFile(
            cache_path=self._cache_path,
            # An index is of one numba. Two installations of the same checkout have two.
            filename_base=f"{prefix}{self._impl.filename_base}.numba{numba.__version__}",
            source_stamp=stamp_of(function),
        )

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        # numba adds the pickled closure; with compiled functions in it, it differs from process to process. These are
        # part of the stamp and, by `specialised`, of the name.
        if compiled_in_closure(self._py_func):
            return sig, codegen.magic_tuple(), hashlib.sha256(self._py_func.__code__.co_code).hexdigest()
        return super()._index_key(sig, codegen)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        # LLVM fetches the machine code by a call into Python. A KeyboardInterrupt raised there is lost together with
        # the code, and the loaded function would be called at address 0.
        with interrupts_deferred():
            return super().load_overload(sig, target_context)
