# SPDX-License-Identifier: Apache-2.0
"""Explanations of failed imports of dpctl."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from syclsched.oneapi.libraries import LibraryFound
from syclsched.oneapi.pins import install_command, shipped_by


def explain_import_failure(
    message: str, versions: Mapping[str, str], libraries: Iterable[LibraryFound]
) -> tuple[str, str]:
    """Return why dpctl could not be imported, and the command that fixes it."""
    if "dpctl" not in versions and "No module named 'dpctl'" in message:
        return "dpctl is not installed", install_command()
    found = re.search(r"(lib[\w+.-]+\.so[.\d]*)", message)
    owner = shipped_by(found.group(1)) if found else None
    broken = [each.name for each in libraries if each.path is None and each.error is not None]
    also = f" (not found: {', '.join(broken)})" if broken else ""
    if found and owner:
        return f"{found.group(1)} could not be loaded: {message}{also}", install_command((owner,))
    return f"dpctl cannot be imported: {message}{also}", install_command()
