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
source "$repository/tests/common.sh"
# Of its own: it has the packages of a collector too.
readonly collector_python=$work/venv/bin/python

main() {
    cd "$repository"
    need_build_tools
    mkdir -p "$work"
    find_promtool
    install_python_packages "$work/venv" "$here/requirements.txt"
    generate_stubs "$collector_python" "$work/stubs"
    build_server --features otlp
    echo "== checks"
    PYTHONPATH=$work/stubs PYTHONDONTWRITEBYTECODE=1 \
        timeout 300 "$collector_python" "$here/checks.py" "$server" "$promtool"
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

main "$@"
