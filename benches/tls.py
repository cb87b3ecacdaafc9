#!/usr/bin/env python3
"""What TLS costs beside plain WebSocket, by the project's own load generator.

    cargo build --release -p danmaku -p danmaku-loadtest
    python3 benches/tls.py [--rounds 3] [--subscribers 4000] [--rate 100] [--secs 8] [--connections 8000]

Plain and TLS alternate on one server, each round with fresh connections; then idle TLS connections are
held. Server and load have a core each (SERVER_CPU, CLIENT_CPU; 0 and 1). Needs openssl. The medians'
ratio is the figure; a machine that does anything else at the same time shows in the spread.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
SERVER_CPU, CLIENT_CPU = os.environ.get("SERVER_CPU", "0"), os.environ.get("CLIENT_CPU", "1")


def certificate(folder):
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "7",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
         "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


def start(folder, cert, key):
    config = folder / "live.toml"
    bench = (ROOT / "benches" / "bench.toml").read_text()
    config.write_text(f'[tls]\nlisten = "127.0.0.1:0"\ncert = "{cert}"\nkey = "{key}"\n{bench}')
    server = subprocess.Popen(
        ["taskset", "-c", SERVER_CPU, str(BIN / "danmaku"), "serve", "--listen", "127.0.0.1:0", "--admin-listen",
         "127.0.0.1:0", "--data-dir", str(folder / "data"), "--workers", "1", "--config", str(config)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    told = {}
    for line in server.stdout:
        words, _, address = line.strip().rpartition(" ")
        told[words + " " + address.partition(":")[0]] = address
        if words.startswith("admin"):
            break
    plain = told["listening on http"].replace("http", "ws", 1) + "/ws"
    secured = told["listening on https"].replace("https", "wss", 1) + "/ws"
    return server, plain, secured, told["admin on http"]


def load(folder, server, admin, cert, url, *options):
    result = folder / "result.json"
    result.unlink(missing_ok=True)
    subprocess.run(
        ["taskset", "-c", CLIENT_CPU, str(BIN / "loadtest"), options[0], "--url", url, "--ca", str(cert), "--admin",
         admin, "--server-pid", str(server.pid), "--json", str(result), *options[1:]],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    return json.loads(result.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--subscribers", type=int, default=4000)
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument("--secs", type=int, default=8)
    parser.add_argument("--connections", type=int, default=8000)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        cert, key = certificate(folder)
        server, plain, secured, admin = start(folder, cert, key)
        try:
            run(options, folder, server, plain, secured, admin, cert)
        finally:
            server.terminate()
            server.wait()


def run(options, folder, server, plain, secured, admin, cert):
    giant = ["giant", "--witnesses", "0", "--subscribers", str(options.subscribers), "--rate", str(options.rate)]
    giant += ["--secs", str(options.secs)]
    cost = {"plain": [], "TLS": []}
    for _ in range(options.rounds):
        for name, url in [("plain", plain), ("TLS", secured)]:
            result = load(folder, server, admin, cert, url, *giant)
            cost[name].append(result["cpu_us_per_delivery"])
            print(f"{name:6} {result['cpu_us_per_delivery']:.3f} µs CPU a delivery, {result['writes_per_delivery']:.3f} writes,"
                  f" p99 {result['p99_ms']:.1f} ms, missing {result['missing']:.0f}")  # fmt: skip
    idle = load(folder, server, admin, cert, secured, "idle", "--connections", str(options.connections))
    print(f"idle   {idle['rss_kib_per_connection']:.2f} KiB of process memory a TLS connection")
    ratio = statistics.median(cost["TLS"]) / statistics.median(cost["plain"])
    print(f"TLS costs {ratio:.2f} × the CPU of plain")


if __name__ == "__main__":
    main()
