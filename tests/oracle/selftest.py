#!/usr/bin/env python3
"""Test the validator with files whose result is known.

    selftest.py [--venvs DIR] [--bases DIR] [RELEASE ...]

For each release: every config that it ships passes the schema checks, every file in golden/ for it has
no errors, and the full example for a distant release is rejected.
golden/ holds the expected configs of three resources, named by the release that they were written for. A
release without files of its own has those of another release with its schema, or none. They are written by
hand, not by the adapters: the resource or the release needs every line.
Exit status: 0 all as expected, 1 otherwise, 2 the validator failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setup import RELEASES
from validate_config import default_venvs

HERE = Path(__file__).resolve().parent


def errors_by_file(files: list[Path], release: str, venvs: str, level: str) -> dict[Path, list[str]]:
    """The errors of each file."""
    command = [sys.executable, HERE / "validate_config.py", *files, release, "--venvs", venvs, "--json", "--level", level]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 2:
        raise OSError(f"{release}: {done.stdout}{done.stderr}")
    results = map(json.loads, done.stdout.splitlines())
    return {Path(r["file"]): [f"{f['path']}: {f['message']}" for f in r["findings"] if f["level"] == "ERROR"]
            for r in results}


def golden_files(release: str) -> list[Path]:
    """The files of the release, or else of the newest other release with the same schema."""
    releases = json.loads((HERE / "releases.json").read_text())
    schema = next((one["schema"] for one in releases if one["name"] == release), None)
    same_schema = [one["name"] for one in reversed(releases) if one["schema"] == schema]
    found = (sorted((HERE / "golden").glob(f"*.{name}.yaml")) for name in [release, *same_schema])
    return next(filter(None, found), [])


def check(release: str, venvs: str, bases: Path) -> list[str]:
    distant = "0.2.12" if release not in ("0.2.12", "0.2.24") else "0.7.3"
    foreign = HERE / "golden" / f"full-example.{distant}.yaml"
    golden = golden_files(release)
    shipped = sorted((bases / release).rglob("*.yaml"))
    own = errors_by_file([*golden, foreign], release, venvs, "start")
    problems = [] if own.pop(foreign) else [f"{release} accepts {foreign.name}"]
    if not shipped:
        problems.append(f"{release} has no shipped files")
    for file, errors in [*own.items(), *errors_by_file(shipped, release, venvs, "schema").items()]:
        problems += [f"{release} rejects {file.name}: {error}" for error in errors]
    print(f"{release:<10} {len(golden)} golden, {len(shipped)} shipped: {'FAILED' if problems else 'ok'}", flush=True)
    return problems


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("--venvs", default=default_venvs())
    arguments.add_argument("--bases", type=Path, help="folder with the shipped configs (default: next to --venvs)")
    arguments.add_argument("release", nargs="*", default=list(RELEASES))
    given = arguments.parse_args()
    bases = given.bases or Path(given.venvs).parent / "bases"
    # Importing a release takes seconds of CPU time, so run them in parallel.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(lambda release: check(release, given.venvs, bases), given.release)
        try:
            problems = [problem for of_release in found for problem in of_release]
        except OSError as error:
            print(f"selftest: {error}", file=sys.stderr)
            return 2
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
