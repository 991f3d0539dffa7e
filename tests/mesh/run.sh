#!/usr/bin/env bash
# Shows how three replicas of Loyd live behind the real Envoy, nginx and
# HAProxy, with the configurations of deploy/, and behind grpcio's own
# balancing.
#
#     tests/mesh/run.sh
#
# Needs Rust, a C compiler and Python; root installs nginx and HAProxy from
# Debian here, and Envoy comes from PyPI. Nothing is skipped: what is missing is a
# failure. All runs on the loopback, on free ports. What is installed or
# generated goes to tests/mesh/.work and tests/clients/.work, which may be
# deleted at any time.
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mesh=$repository/tests/mesh
work=$mesh/.work
source "$repository/tests/common.sh"

main() {
    cd "$repository"
    need_build_tools
    [[ $(uname -sm) == "Linux x86_64" ]] ||
        die "the pinned Envoy package is for Linux on x86-64 here"
    mkdir -p "$work"
    install_proxies
    check_deploy
    build_server
    install_python_client
    # The checks start and stop every process, and stop all at their end.
    PYTHONPATH=$stubs:$repository/tests/clients/python PYTHONDONTWRITEBYTECODE=1 \
        timeout --kill-after=10 600 "$python" "$mesh/checks.py" "$server" "$work/venv/bin/envoy" "$work"
}

install_proxies() {
    local missing=()
    command -v nginx >/dev/null || missing+=(nginx)
    command -v haproxy >/dev/null || missing+=(haproxy)
    ((${#missing[@]} == 0)) || install_debian_packages "${missing[@]}"
    install_python_packages "$work/venv" "$mesh/requirements.txt"
    nginx -v
    # Read to its end: a closed pipe would fail it.
    haproxy -v | sed -n 1p
    "$work/venv/bin/envoy" --version
}

# What can't be run here is at least well formed.
check_deploy() {
    echo "== deploy/"
    "$work/venv/bin/kubernetes-validate" --strict --quiet deploy/kubernetes.yaml
    "$work/venv/bin/hadolint" deploy/Dockerfile
}

main "$@"
