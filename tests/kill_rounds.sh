#!/bin/bash
# Kills a loaded server 200 times, or as often as the argument says, and sees that every ack was kept.
set -euo pipefail
cd "$(dirname "$0")/.."
DANMAKU_KILL_ROUNDS=${1:-200} cargo test --release --test store a_killed_server -- --nocapture
