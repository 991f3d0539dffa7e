#!/usr/bin/env bash
# Runs real gRPC clients against the real server: Python, Node, grpcurl, and
# pages in headless Chromium.
#
#     tests/clients/run.sh
#
# Builds Loyd, starts it on a free port, runs every client, stops the server
# with SIGTERM and checks that it ends well. Nothing is skipped: a missing tool
# is a failure that says what to install, but for Chromium, which root installs
# from Debian here. Whatever else is installed or generated goes to
# tests/clients/.work, which may be deleted at any time.
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
clients=$repository/tests/clients
work=$clients/.work
source "$repository/tests/common.sh"
# Relative: a socket's path has at most 107 bytes.
socket=tests/clients/.work/loyd.sock
server_pid=
address=
passed=0
failed=0

main() {
    cd "$repository"
    check_tools
    mkdir -p "$work"
    build_server
    install_python_client
    install_node_client
    install_chromium
    install_browser_client

    trap kill_server_at_exit EXIT
    # A short stall timeout, since a check waits for it.
    start_server --listen 127.0.0.1:0 --stall-timeout 5s
    run_program python "$python" "$clients/python/checks.py" "$address"
    run_program node node "$work/node/checks.js" "$address" "$repository/proto"
    run_grpcurl plain "$address" -plaintext
    # The page's origin is known only then: it starts a server of its own.
    run_program browser node "$work/browser/checks.js" "$server"
    check sigterm_ends_the_server_with_exit_code_0 stop_server

    make_certificate
    start_server --listen 127.0.0.1:0 --listen "unix:$socket" \
        --tls-cert "$work/cert.pem" --tls-key "$work/key.pem"
    run_grpcurl tls "$address" -cacert "$work/cert.pem"
    # Without a host in the address, some clients make the path their authority.
    run_grpcurl unix "$socket" -plaintext -unix -authority localhost
    check sigterm_ends_the_secured_server_too stop_server
    check its_socket_is_gone test ! -e "$socket"
    ((failed == 0)) || show_server_log

    echo "== all clients"
    echo "$passed passed, $failed failed"
    ((failed == 0))
}

# Tools

check_tools() {
    need_build_tools
    need node "Node.js 20 or newer, with npm"
    need openssl "openssl: apt-get install openssl"
    need npm "npm, which comes with Node.js 20 or newer"
    node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 20 ? 1 : 0)' ||
        die "Node.js 20 or newer is needed, this is $(node --version)"
    [[ $(uname -sm) == "Linux x86_64" ]] ||
        die "the pinned grpcurl package holds a binary for Linux on x86-64 only"
}

install_node_client() {
    # A module finds its packages beside itself, so it runs from a copy.
    mkdir -p "$work/node"
    cp "$clients"/node/{*.js,*.json,*.proto,.npmrc} "$work/node/"
    if is_stale "$work/node/installed" "$clients/node/package-lock.json"; then
        echo "== installing the Node packages"
        (cd "$work/node" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
        cp "$clients/node/package-lock.json" "$work/node/installed"
    fi
}

install_chromium() {
    command -v chromium >/dev/null || install_debian_packages chromium
}

# Generates the client and bundles the page with it, at every run.
install_browser_client() {
    mkdir -p "$work/browser"
    cp "$clients"/browser/{*.js,*.json,.npmrc} "$work/browser/"
    if is_stale "$work/browser/installed" "$clients/browser/package-lock.json"; then
        echo "== installing the browser's packages"
        (cd "$work/browser" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
        cp "$clients/browser/package-lock.json" "$work/browser/installed"
    fi
    local tools=$work/browser/node_modules/.bin
    mkdir -p "$work/browser/gen"
    "$python" -m grpc_tools.protoc --proto_path=proto \
        --plugin=protoc-gen-es="$tools/protoc-gen-es" \
        --es_out="$work/browser/gen" --es_opt=target=js \
        loyd/v1/solver.proto
    "$tools/esbuild" "$work/browser/page.js" --bundle --format=esm --log-level=warning \
        --outfile="$work/browser/bundle.js"
}

# The server

# Start it with these options; its first address is then $address.
start_server() {
    echo "== starting $server $*"
    # Here, and not only by the shell that starts it: an earlier server's address is read else.
    : >"$work/server.out"
    "$server" serve "$@" >"$work/server.out" 2>"$work/server.err" &
    server_pid=$!
    for _ in {1..100}; do
        address=$(sed -En 's|^listening on https?://||p' "$work/server.out")
        [[ -z $address ]] || return 0
        kill -0 "$server_pid" 2>/dev/null || break
        sleep 0.1
    done
    show_server_log
    die "the server did not say where it listens"
}

# A server's certificate, which is its own authority.
make_certificate() {
    openssl req -x509 -days 2 -subj /CN=loyd.test -nodes \
        -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 \
        -addext basicConstraints=critical,CA:FALSE -addext subjectAltName=IP:127.0.0.1 \
        -keyout "$work/key.pem" -out "$work/cert.pem" 2>"$work/openssl.err" ||
        die "openssl made no certificate: $(cat "$work/openssl.err")"
}

# Send SIGTERM and wait; fails unless the server ends with exit code 0 in time.
stop_server() {
    local pid=$server_pid code=0
    kill -TERM "$pid"
    for _ in {1..300}; do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null && echo "still running 30 seconds after SIGTERM"
    wait "$pid" || code=$?
    server_pid=
    echo "exit code $code"
    ((code == 0))
}

kill_server_at_exit() {
    [[ -z $server_pid ]] || kill -KILL "$server_pid" 2>/dev/null || true
}

show_server_log() {
    echo "-- the server's last log lines"
    tail -n 20 "$work/server.err"
}

# The clients

# Run a client that prints `ok <check>` or `FAILED <check>` lines; count them.
run_program() {
    local name=$1 output=$work/$1.out code=0 oks faults
    shift
    echo "== $name"
    PYTHONPATH=$stubs PYTHONDONTWRITEBYTECODE=1 \
        timeout 900 "$@" 2>&1 | tee "$output" || code=$?
    oks=$(grep -c '^ok ' "$output" || true)
    faults=$(grep -c '^FAILED ' "$output" || true)
    if ((faults == 0 && (code != 0 || oks == 0))); then
        echo "FAILED $name: $oks checks passed, then it ended with exit code $code"
        faults=1
    fi
    passed=$((passed + oks))
    failed=$((failed + faults))
}

# Run grpcurl over the transport named $1, to the address $2, with the options
# after it. It knows no proto file: all it needs, the server's reflection tells.
run_grpcurl() {
    local name=$1 target=$2
    grpcurl_options=("${@:3}")
    echo "== grpcurl, $name"
    check "${name}_list_names_the_service" \
        grpcurl_says '^loyd\.v1\.SolverService$' "$target" list
    check "${name}_describe_shows_the_unary_call" \
        grpcurl_says 'rpc Solve ( \.loyd\.v1\.SolveRequest )' \
        "$target" describe loyd.v1.SolverService
    check "${name}_describe_shows_the_stream" \
        grpcurl_says 'rpc SolveBatch ( stream \.loyd\.v1\.SolveBatchRequest )' \
        "$target" describe loyd.v1.SolverService
    local sample='{"board":{"tiles":[2,3,4,1,5,0,7,6,8]}}'
    check "${name}_sample_is_solved" \
        grpcurl_says '"outcome": "OUTCOME_SOLVED"' \
        -d "$sample" "$target" loyd.v1.SolverService/Solve
    check "${name}_sample_has_length_19" \
        grpcurl_says '"length": 19' \
        -d "$sample" "$target" loyd.v1.SolverService/Solve
}

# Whether grpcurl with the arguments after the first prints a line like $1.
grpcurl_says() {
    local pattern=$1 output
    shift
    output=$("$work/venv/bin/grpcurl" "${grpcurl_options[@]}" -max-time 20 "$@" 2>&1) || {
        echo "grpcurl $*: $output"
        return 1
    }
    grep --quiet -- "$pattern" <<<"$output" || {
        echo "grpcurl $*: no line like '$pattern' in: $output"
        return 1
    }
}

# Run a command as the check named $1; what it prints is shown if it fails.
check() {
    local name=$1
    shift
    if "$@" >"$work/check.out" 2>&1; then
        echo "ok $name"
        passed=$((passed + 1))
    else
        echo "FAILED $name: $(cat "$work/check.out")"
        failed=$((failed + 1))
    fi
}

main "$@"
