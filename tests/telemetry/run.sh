#!/usr/bin/env bash
# Checks what a server tells of itself with the tools that read it: promtool
# for the metrics, and a collector on OpenTelemetry's own types for the traces.
#
#     tests/telemetry/run.sh
#
# Builds Loyd with the feature `otlp`. Nothing is skipped: promtool, which is in
# Debian's package of Prometheus, is unpacked from there where it is missing.
# Whatever is installed goes to tests/telemetry/.work, which may be deleted at
# any time.
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$repository/tests/telemetry
work=$here/.work
python=$work/venv/bin/python
server=${CARGO_TARGET_DIR:-target}/release/loyd

main() {
    cd "$repository"
    need cargo "a current stable Rust, with rustup"
    need python3 "Python 3.10 or newer: apt-get install python3 python3-venv"
    mkdir -p "$work"
    find_promtool
    install_packages
    echo "== building the server"
    cargo build --release --locked --features otlp
    echo "== checks"
    PYTHONPATH=$work/stubs PYTHONDONTWRITEBYTECODE=1 \
        timeout 300 "$python" "$here/checks.py" "$server" "$promtool"
}

need() {
    command -v "$1" >/dev/null || die "$1 is missing; install $2"
}

# Unpacked and not installed: the package would start a server of its own.
find_promtool() {
    promtool=$(command -v promtool) && return
    promtool=$work/prometheus/usr/bin/promtool
    [[ ! -x $promtool ]] || return 0
    command -v apt-get >/dev/null || die "promtool is missing; it comes with Prometheus"
    echo "== unpacking promtool"
    rm -rf "$work/prometheus" "$work"/prometheus_*.deb
    apt-get update -qq
    # As root, apt reads and writes as a user of its own unless told otherwise.
    (cd "$work" && apt-get download -qq -o APT::Sandbox::User=root prometheus)
    dpkg-deb --extract "$work"/prometheus_*.deb "$work/prometheus"
    rm "$work"/prometheus_*.deb
}

install_packages() {
    if ! cmp --silent "$work/venv/installed" "$here/requirements.txt"; then
        echo "== installing the Python packages"
        rm -rf "$work/venv"
        python3 -m venv "$work/venv"
        "$python" -m pip install --quiet --requirement "$here/requirements.txt"
        cp "$here/requirements.txt" "$work/venv/installed"
    fi
    # Generated at every run: the stubs always are those of today's contract.
    mkdir -p "$work/stubs"
    "$python" -m grpc_tools.protoc --proto_path=proto \
        --python_out="$work/stubs" --grpc_python_out="$work/stubs" \
        loyd/v1/solver.proto
}

die() {
    echo "run.sh: $*" >&2
    exit 1
}

main "$@"
