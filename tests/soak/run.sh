#!/usr/bin/env bash
# Puts a mixed load on one Loyd process for a time, and fails on a wrong
# answer, growth of memory or files, a panic in its log or an unclean exit.
#
#     tests/soak/run.sh [--minutes N]      default 10
#
# Needs Rust, a C compiler and Python. docs/soak.md says what it does and
# what it found. What it makes goes to tests/soak/.work and tests/clients/.work,
# which may be deleted at any time.
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
soak=$repository/tests/soak
work=$soak/.work
source "$repository/tests/common.sh"

main() {
    cd "$repository"
    need_build_tools
    mkdir -p "$work"
    build_server
    install_python_client
    PYTHONPATH=$stubs:$repository/tests/clients/python PYTHONDONTWRITEBYTECODE=1 \
        "$python" "$soak/soak.py" --server "$server" --log "$work/loyd.log" "$@"
}

main "$@"
