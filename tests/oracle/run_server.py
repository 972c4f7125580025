#!/usr/bin/env python3
"""Start the real llama-stack / ogx server of one release on 127.0.0.1 with a config.

    run_server.py [--cli] [--probe [--path PATH]... | --error TEXT] CONFIG PORT RELEASE

Once the server is healthy, prints the line `up: <url> pid <pid> log <file>` and runs until standard
input ends or SIGINT or SIGTERM arrives, so the server stops with the test that started it.
With --probe, gets the paths (default /v1/health /v1/version /v1/providers /v1/models), prints one JSON
line {"path", "status", "body"} for each, and stops. With --error, waits until the log contains the text.

--cli starts the server with `llama stack run` / `ogx stack run`, which alone uses server.tls_*, on a
copy of the config with server.host 127.0.0.1. The default is `uvicorn …:create_app`, as in pods.
Releases without create_app always use the command.

Variables of the config (${env.X}) are taken from the environment. Data is written to a temporary folder
or to --state DIR, never to the home folder.
Exit status: 0 success, 1 the server exited or a probe did not return 200 (end of the log on stderr),
2 usage.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import select
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from validate_config import default_venvs

# Prints the module with create_app, or nothing. Runs in the environment of the release.
FIND_APP = r"""
import importlib.util
for name in ("ogx.core.server.server", "llama_stack.core.server.server", "llama_stack.distribution.server.server"):
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        continue
    if spec:
        print(name if "def create_app" in open(spec.origin).read() else "")
        break
"""

# Copies argv[1] to argv[2] with a loopback host, and prints the URL scheme of the server.
BIND_TO_LOOPBACK = r"""
import sys, yaml
config = yaml.safe_load(open(sys.argv[1]))
server = config["server"] = config.get("server") or {}
server["host"] = "127.0.0.1"
yaml.safe_dump(config, open(sys.argv[2], "w"), sort_keys=False)
print("https" if server.get("tls_certfile") and server.get("tls_keyfile") else "http")
"""

DEFAULT_PATHS = ["/v1/health", "/v1/version", "/v1/providers", "/v1/models"]


class Stopped(Exception):
    """SIGINT or SIGTERM arrived."""


def stopped(*_):
    raise Stopped


def in_release(python: str, script: str, *arguments: str) -> str:
    done = subprocess.run([python, "-I", "-c", script, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def server_command(given, bin_dir: str, state: str) -> tuple[list[str], str]:
    """The command line, and the URL scheme of the server."""
    python = os.path.join(bin_dir, "python")
    app = "" if given.cli else in_release(python, FIND_APP)
    if app:
        return [python, "-m", "uvicorn", f"{app}:create_app", "--factory", "--host", "127.0.0.1",
                "--port", str(given.port)], "http"
    copy = os.path.join(state, "config.yaml")
    scheme = in_release(python, BIND_TO_LOOPBACK, given.config, copy)
    command = next(c for c in ("ogx", "llama") if os.path.exists(os.path.join(bin_dir, c)))
    return [os.path.join(bin_dir, command), "stack", "run", copy, "--port", str(given.port)], scheme


def environment(given, bin_dir: str, state: str) -> dict[str, str]:
    env = dict(os.environ)
    # Without compiled modules, a start takes twice as long.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    env.setdefault("SQLITE_STORE_DIR", os.path.join(state, "db"))
    env.setdefault("FILES_STORAGE_DIR", os.path.join(state, "files"))
    tokenizer = os.path.join(given.venvs, "tiktoken-cache")
    if os.path.isdir(tokenizer):  # vector_io, responses and file search load an encoding while starting
        env.setdefault("TIKTOKEN_CACHE_DIR", tokenizer)
    env.update(HOME=os.path.join(state, "home"), PATH=bin_dir + os.pathsep + env.get("PATH", ""),
               LLAMA_STACK_CONFIG=given.config, OGX_CONFIG=given.config)
    # Images have the folders in the home, and a database does not create its own.
    home = [os.path.join(env["HOME"], name) for name in (".llama", ".ogx")]
    for folder in [*home, env["SQLITE_STORE_DIR"]]:
        os.makedirs(folder, exist_ok=True)
    return env


@functools.cache
def direct() -> urllib.request.OpenerDirector:
    # The certificate is self-signed, for a name in the cluster.
    unverified = ssl.create_default_context()
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=unverified))


def get(url: str, seconds: float) -> tuple[int, str]:
    try:
        with direct().open(url, timeout=seconds) as response:
            return response.status, response.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")


def is_healthy(url: str) -> bool:
    try:
        get(url + "/v1/health", 20)
        return True
    except OSError:
        return False


def wait_until_healthy(server: subprocess.Popen, url: str, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and server.poll() is None:
        if is_healthy(url):
            return True
        time.sleep(0.1)
    return False


def wait_for_error(server: subprocess.Popen, url: str, log: str, text: str, seconds: float) -> int:
    """0 if the log contains the text. Some releases report an error and do not exit."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not is_healthy(url):
        has_exited = server.poll() is not None
        with open(log, errors="replace") as file:
            if text in file.read():
                return 0
        if has_exited:
            break
        time.sleep(0.1)
    print(f"run_server: the server did not report {text!r}", file=sys.stderr)
    return 1


def probe(url: str, paths: list[str]) -> int:
    worst = 0
    for path in paths:
        status, body = get(url + path, 30)
        print(json.dumps({"path": path, "status": status, "body": body}), flush=True)
        worst |= status != 200
    return worst


def wait_for_end_of_input(server: subprocess.Popen) -> int:
    while server.poll() is None:
        readable, _, _ = select.select([sys.stdin], [], [], 0.5)
        if readable and not os.read(sys.stdin.fileno(), 4096):
            return 0
    print(f"run_server: the server exited with status {server.returncode}", file=sys.stderr)
    return 1


def stop(server: subprocess.Popen) -> None:
    server.terminate()
    try:
        server.wait(10)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def print_log(log: str, lines: int = 20) -> None:
    with open(log, errors="replace") as file:
        kept = [line for line in file if line.strip()]
    sys.stderr.write("run_server: end of the server log:\n" + "".join(kept[-lines:]))


def run(given, bin_dir: str, state: str) -> int:
    log = os.path.join(state, "server.log")
    command, scheme = server_command(given, bin_dir, state)
    url = f"{scheme}://127.0.0.1:{given.port}"
    with open(log, "w") as output:
        # Some releases write to the current folder.
        server = subprocess.Popen(command, cwd=state, env=environment(given, bin_dir, state), stdin=subprocess.DEVNULL,
                                  stdout=output, stderr=subprocess.STDOUT)
    outcome = 1
    try:
        if given.error:
            outcome = wait_for_error(server, url, log, given.error, given.deadline)
        elif not wait_until_healthy(server, url, given.deadline):
            print(f"run_server: the server of {given.release} did not become healthy", file=sys.stderr)
        else:
            print(f"up: {url} pid {server.pid} log {log}", flush=True)
            outcome = probe(url, given.path or DEFAULT_PATHS) if given.probe else wait_for_end_of_input(server)
    except Stopped:
        outcome = 0
    finally:
        stop(server)
    if outcome:
        print_log(log)
    return outcome


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("config", type=os.path.abspath)
    arguments.add_argument("port", type=int)
    arguments.add_argument("release", help="release, e.g. 0.7.3 or ogx-1.5.0")
    arguments.add_argument("--cli", action="store_true")
    arguments.add_argument("--probe", action="store_true", help="get the paths and stop")
    arguments.add_argument("--path", action="append", help="path to get instead of the default ones")
    arguments.add_argument("--error", metavar="TEXT", help="expect that the server reports this error, and stop")
    arguments.add_argument("--state", type=os.path.abspath, help="folder for databases and the log")
    arguments.add_argument("--deadline", type=float, default=600, help="seconds to wait until the server is healthy")
    arguments.add_argument("--venvs", default=default_venvs(), help="folder that setup.py created (default %(default)s)")
    given = arguments.parse_args()
    bin_dir = os.path.join(given.venvs, given.release, "bin")
    if not os.path.exists(os.path.join(bin_dir, "python")):
        print(f"run_server: no environment for {given.release} in {given.venvs}; run setup.py", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, stopped)
    signal.signal(signal.SIGINT, stopped)
    state = given.state or tempfile.mkdtemp(prefix="llsd-server-")
    os.makedirs(state, exist_ok=True)
    try:
        return run(given, bin_dir, state)
    except Stopped:
        return 0
    finally:
        if not given.state:
            shutil.rmtree(state, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
