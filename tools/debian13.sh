#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests this checkout in a Debian of its own: 13 has Python 3.13 and PoCL 6, its successor Python 3.14 and PoCL 7.
set -euo pipefail

usage() {
    cat <<'USAGE'
Usage: tools/debian13.sh [--release NAME] [--root FOLDER] [--remake] [--parts LIST] [-- PYTEST ARGUMENTS]

Makes a Debian root with debootstrap, if there is none yet, copies this checkout in, and runs there:
  run    the README's command that installs, profiles and runs a graph
  tests  the README's test command, where PoCL is installed besides
  intel  the tests that need a device (pytest -m sycl), on Intel's CPU runtime alone
  pocl   the same on PoCL alone
  both   the tests of plans and runs across both runtimes

  --release NAME trixie (Debian 13, the default: Python 3.13, PoCL 6) or forky (Debian 14, in preparation:
                 Python 3.14, PoCL 7)
  --root FOLDER  where the root is, or is made (default: syclsched/debian-NAME in the user's cache folder; some 6 GB)
  --remake       make the root anew
  --parts LIST   only these, separated by commas (default: run,tests,intel,pocl,both)
  --shell        open a shell in the root instead, as the last run has left it
  PYTEST ARGUMENTS go to the last three parts, such as "-k cholesky" or "tests/kernels"

Needs root (for chroot and mounts, which end with this script, however it ends) and debootstrap. The mirror is that of
this machine's apt settings if it is a Debian, else Debian's own; pip is configured as on this machine.
USAGE
}

fail() { echo "tools/debian13.sh: $*" >&2; exit 2; }

release=trixie root="" remake="" parts="run,tests,intel,pocl,both" shell=""
while (($#)); do
    case "$1" in
        -h | --help) usage; exit 0 ;;
        --release) (($# > 1)) || fail "--release needs a name"; release="$2"; shift ;;
        --root) (($# > 1)) || fail "--root needs a folder"; root="$2"; shift ;;
        --parts) (($# > 1)) || fail "--parts needs a list"; parts="$2"; shift ;;
        --remake) remake=1 ;;
        --shell) shell=1 ;;
        --) shift; break ;;
        *) fail "unknown argument '$1'; --help shows what there is" ;;
    esac
    shift
done
for part in ${parts//,/ }; do
    [[ " run tests intel pocl both " == *" $part "* ]] || fail "there is no part '$part'; --help shows what there is"
done
[[ " trixie forky " == *" $release "* ]] || fail "there is no release '$release'; --help shows what there is"
root="${root:-${XDG_CACHE_HOME:-$HOME/.cache}/syclsched/debian-$release}"
[[ "$(id -u)" == 0 ]] || fail "needs root, to make and enter the other system: run it with sudo"
command -v debootstrap >/dev/null || fail "needs debootstrap: apt-get install debootstrap debian-archive-keyring"

# Mounts are made in a namespace of this script's own: they end with it, and so do the processes started in the root.
if [[ -z "${SYCLSCHED_DEBIAN13_APART:-}" ]]; then
    again=("$(realpath "${BASH_SOURCE[0]}")" --release "$release" --root "$root" --parts "$parts" ${remake:+--remake}
        ${shell:+--shell} -- "$@")
    SYCLSCHED_DEBIAN13_APART=1 exec unshare --mount --pid --fork --kill-child --propagation private bash "${again[@]}"
fi
trap 'exit 130' INT
trap 'exit 143' TERM
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p "$root"
root="$(realpath "$root")"
section() { printf '\n==== %s (%d s)\n' "$*" "$SECONDS"; }

packages=(python3 python3-venv python3-dev gcc g++ git ca-certificates clinfo ocl-icd-libopencl1 pocl-opencl-icd)

debian_mirror() {
    # The first archive of Debian's own packages that apt uses here.
    apt-get indextargets --format '$(ORIGIN) $(SITE)' 'Created-By: Packages' 2>/dev/null |
        sed -n 's/^Debian \(http.*\)/\1/p' | grep -v security | head -n 1
}

make_root() {
    section "Debian $release in $root"
    rm -rf "$root.partial"
    mkdir -p "$root.partial"
    local mirror
    mirror="$(debian_mirror)"
    # An older debootstrap does not know the newest release, which is made as Debian's unstable one is.
    local script=/usr/share/debootstrap/scripts/sid
    [[ ! -e "${script%/*}/$release" ]] || script="${script%/*}/$release"
    debootstrap --variant=minbase "$release" "$root.partial" "${mirror:-http://deb.debian.org/debian}" "$script"
    cp /etc/resolv.conf "$root.partial/etc/resolv.conf"
    apt-config dump | grep -E '^Acquire::(http|Check-Valid-Until)' >"$root.partial/etc/apt/apt.conf.d/90machine" || true
    mount -t proc proc "$root.partial/proc"
    DEBIAN_FRONTEND=noninteractive chroot "$root.partial" apt-get update -q
    DEBIAN_FRONTEND=noninteractive chroot "$root.partial" \
        apt-get install -q -y --no-install-recommends "${packages[@]}"
    umount "$root.partial/proc"
    rm -rf "$root"
    mv "$root.partial" "$root"
    touch "$root/.complete"
}

# pip's configuration files, and what their values and pip's variables name: files are copied, folders mounted.
pip_settings() {
    local files named path
    files="$(python3 -m pip config debug 2>/dev/null | sed -n 's/^ *\(\/.*\), exists: True$/\1/p' || true)"
    named="$(cat /dev/null $files; env | grep -E '^(PIP_|SSL_CERT|REQUESTS_CA|CURL_CA)' || true)"
    for path in $files $(grep -oE '(file://)?/[^[:space:]"'\'',=]+' <<<"$named" | sed 's,^file://,,' | sort -u); do
        [[ "$path" == /[^/]* && -e "$path" && -e "$root" ]] || continue
        [[ ! "$path" -ef "$root$path" ]] || continue
        if [[ -f "$path" ]]; then
            mkdir -p "$root$(dirname "$path")"
            cp -L "$path" "$root$path"
        else
            # The pages of an index refer to files beside its folder.
            [[ "$(basename "$path")" == simple ]] && path="$(dirname "$path")"
            [[ "$path" != / && ! " / /proc /dev /sys /etc /usr " == *" $path "* ]] || continue
            mkdir -p "$root$path"
            mount --bind -o ro "$path" "$root$path"
        fi
    done
}

copy_checkout() {
    rm -rf "$root/src.new"
    mkdir -p "$root/src.new"
    git -c safe.directory='*' ls-files -coz --exclude-standard |
        tar --null --ignore-failed-read -T - -c | tar -x -C "$root/src.new"
    # The environment is kept between runs: the README's commands make it anew only where it is missing.
    if [[ -d "$root/src/.venv" ]]; then mv "$root/src/.venv" "$root/src.new/.venv"; fi
    rm -rf "$root/src"
    mv "$root/src.new" "$root/src"
    chown -R root:root "$root/src"
}

within() {
    local kept=() name
    while IFS= read -r name; do kept+=("$name=${!name}"); done \
        < <(compgen -e | grep -E '^(PIP_|SSL_CERT|REQUESTS_CA|CURL_CA)|_(proxy|PROXY)$' || true)
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME="$HOME" LANG=C.UTF-8 MPLBACKEND=Agg "${kept[@]}" \
        chroot "$root" bash -euo pipefail -c 'cd /src && "$@"' - "$@"
}

[[ -n "$remake" ]] && rm -rf "$root"
[[ -e "$root/.complete" ]] || make_root
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys" # PoCL reads the processor's topology there, and ends the process without it
cp /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root$HOME"
pip_settings
if [[ -n "$shell" && -d "$root/src" ]]; then
    within bash
    exit
fi
section "The checkout"
copy_checkout
if [[ -n "$shell" ]]; then
    within bash
    exit
fi

readme() { within bash -euo pipefail -c "$(python3 tools/readme_command.py "$1")"; }

# What the README's test command installs, for tests that are run without it.
install_tests() {
    within bash -euo pipefail -c "python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]'"
}

# A test whose process dies fails by its name, and the others go on in another process.
device_tests=(.venv/bin/python -m pytest -q -m sycl -n 2 --dist worksteal)

# A runtime alone is chosen as a user would: with a list of drivers of their own, and a folder without vendor files.
run_part() {
    local part="$1"
    shift
    case "$part" in
        run) readme main ;;
        tests) readme tests ;;
        intel) within env OCL_ICD_VENDORS=/src/docs "${device_tests[@]}" "$@" ;;
        pocl) within env OCL_ICD_VENDORS=/src/docs OCL_ICD_FILENAMES=libpocl.so.2 "${device_tests[@]}" "$@" ;;
        both) within .venv/bin/python -m pytest -q --all-runtimes tests/execution/test_two_runtimes.py "$@" ;;
    esac
}
failed=() installed=""
for part in ${parts//,/ }; do
    section "$part"
    [[ "$part" == run || "$part" == tests || -n "$installed" ]] || install_tests
    [[ "$part" == run ]] || installed=1
    run_part "$part" "$@" || failed+=("$part")
done
section "Done"
((${#failed[@]} == 0)) || { echo "failed: ${failed[*]}" >&2; exit 1; }
