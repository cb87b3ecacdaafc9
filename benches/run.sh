#!/bin/bash
# Runs the standard load scenarios against a server on this machine and prints one markdown table.
#
#   benches/run.sh [RESULTS]      RESULTS: folder for the JSON results; a temporary one unless given
#
# Settings: WORKERS (1), SERVER_CPU (cores of the server, a list for taskset; 0), CLIENT_CPU (cores of the
# load generator; 1), SECS (8), SUBSCRIBERS (4000), CONFIG (benches/bench.toml), BUILD (1; 0: use what is built).
# Exit code 1 if any check failed. Results are only comparable on a machine that does nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${WORKERS:=1}" "${SERVER_CPU:=0}" "${CLIENT_CPU:=1}" "${SECS:=8}" "${SUBSCRIBERS:=4000}"
: "${CONFIG:=benches/bench.toml}" "${BUILD:=1}"
bin=${CARGO_TARGET_DIR:-target}/release
[ "$BUILD" = 0 ] || cargo build --quiet --release -p danmaku -p danmaku-loadtest

scratch=$(mktemp -d)
results=${1:-$scratch/results}
mkdir -p "$results"
server=
failed=0
stop() {
    [ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null || true
    server=
}
trap 'stop; rm -rf "$scratch"' EXIT
ulimit -n "$(ulimit -Hn)"

# Each scenario gets a fresh server: what one leaves behind must not weigh on the next.
start() {
    : >"$scratch/server.log" # before the server opens it: the addresses of the one before must not be read
    taskset -c "$SERVER_CPU" "$bin/danmaku" serve --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 \
        --data-dir "$scratch/data" --workers "$WORKERS" --config "$CONFIG" >"$scratch/server.log" 2>&1 &
    server=$!
    for _ in $(seq 100); do
        admin=$(sed -n 's/^admin on //p' "$scratch/server.log")
        [ -z "$admin" ] || break
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    url=$(sed -n 's/^listening on http:/ws:/p' "$scratch/server.log")/ws
    [ -n "$admin" ] || { cat "$scratch/server.log" >&2; exit 2; }
}

# load NAME SCENARIO [OPTIONS]
load() {
    local name=$1
    shift
    start
    echo "== $name" >&2
    taskset -c "$CLIENT_CPU" "$bin/loadtest" "$1" --url "$url" --admin "$admin" --server-pid "$server" \
        --secs "$SECS" --json "$results/$name.json" "${@:2}" >&2 || failed=1
    if ! kill -0 "$server" 2>/dev/null; then
        echo "the server died in $name:" >&2
        tail -n 20 "$scratch/server.log" >&2
        failed=1
    fi
    stop
    [ ! -e "$results/$name.json" ] || files+=("$results/$name.json")
}

files=()
load giant-20 giant --subscribers "$SUBSCRIBERS" --rate 20
load giant-100 giant --subscribers "$SUBSCRIBERS" --rate 100
load giant-1000 giant --subscribers "$SUBSCRIBERS" --rate 1000
load giant-100-deflate giant --subscribers "$SUBSCRIBERS" --rate 100 --deflate
load rooms-1000x8 rooms --rooms 1000 --members 8 --rate 1000
load stuck-100 stuck --subscribers 1000 --stuck 100 --rate 200 --text-bytes 300
load paused-gap stuck --subscribers 200 --stuck 0 --resume 20 --rate 600 --text-bytes 400 --expect-gap
load small-beside-giant small-beside-giant --subscribers "$SUBSCRIBERS" --rate 500
load idle-8000 idle --connections 8000

echo "Workers $WORKERS on core $SERVER_CPU, load on core $CLIENT_CPU; $(uname -sr), $(nproc) cores;" \
    "commit $(git rev-parse --short HEAD), $(date -u +%F); $SECS s measured."
echo
if [ ${#files[@]} -gt 0 ]; then
    "$bin/loadtest" table "${files[@]}"
fi
exit "$failed"
