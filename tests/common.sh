# What the scripts beside it share: sourced, after `repository` and `work` (the
# script's own folder for what it makes) were set.

# Python with the packages of clients/python/requirements.txt, and the stubs.
readonly python_work=$repository/tests/clients/.work
readonly python=$python_work/venv/bin/python
readonly stubs=$python_work/stubs
readonly server=${CARGO_TARGET_DIR:-target}/release/loyd

die() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

need() {
    command -v "$1" >/dev/null || die "$1 is missing; install $2"
}

# What every script builds and runs with.
need_build_tools() {
    need cargo "a current stable Rust, with rustup"
    need cc "a C compiler: apt-get install gcc"
    need_python
}

need_python() {
    need python3 "Python 3.10 or newer: apt-get install python3 python3-venv"
    python3 -c 'import ensurepip, venv' 2>/dev/null ||
        die "Python has no venv module; install it: apt-get install python3-venv"
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
        die "Python 3.10 or newer is needed, this is $(python3 --version)"
}

# Whether $1, the record of what was last installed, differs from the file $2.
is_stale() {
    ! cmp --silent "$1" "$2"
}

# Build the server, with these options of cargo's.
build_server() {
    echo "== building the server"
    cargo build --release --locked "$@"
}

# Make the virtual environment $1 with the packages of the file $2.
install_python_packages() {
    local venv=$1 requirements=$2
    is_stale "$venv/installed" "$requirements" || return 0
    echo "== installing the Python packages of ${requirements#"$repository/"}"
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --requirement "$requirements"
    cp "$requirements" "$venv/installed"
}

install_python_client() {
    mkdir -p "$python_work"
    install_python_packages "$python_work/venv" "$repository/tests/clients/python/requirements.txt"
    generate_stubs "$python" "$stubs"
}

# Generate the Python stubs into the folder $2, by the Python $1. At every run:
# they always are those of today's contract.
generate_stubs() {
    mkdir -p "$2"
    "$1" -m grpc_tools.protoc --proto_path="$repository/proto" \
        --python_out="$2" --grpc_python_out="$2" \
        loyd/v1/solver.proto
}

# Install these packages from Debian, as root.
install_debian_packages() {
    [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null ||
        die "missing; install them: apt-get install $*"
    echo "== installing $*"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends "$@" >/dev/null
}
