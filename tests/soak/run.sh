#!/usr/bin/env bash
# Puts a mixed load on one Loyd process for a time, and fails on a wrong
# answer, growth of memory or files, calls that never end, a panic in its log or
# an unclean exit.
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

# What it may take beside the load: its workers' last calls, and its own checks.
readonly most_beside=300

main() {
    cd "$repository"
    local minutes=10
    case ${1-} in
        "") ;;
        --minutes) minutes=${2?--minutes needs a number} ;;
        *) die "unknown argument $1; there is --minutes N" ;;
    esac
    need_build_tools
    mkdir -p "$work"
    build_server
    install_python_client
    local seconds
    seconds=$("$python" -c 'import sys; print(float(sys.argv[1]) * 60 + float(sys.argv[2]))' \
        "$minutes" "$most_beside")
    PYTHONPATH=$stubs:$repository/tests/clients/python PYTHONDONTWRITEBYTECODE=1 \
        timeout --kill-after=30 "$seconds" \
        "$python" "$soak/soak.py" --server "$server" --log "$work/loyd.log" --minutes "$minutes"
}

main "$@"
