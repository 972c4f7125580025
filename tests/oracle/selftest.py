#!/usr/bin/env python3
"""Prove the validator on files whose verdict is known.

    selftest.py [--venvs DIR] [--bases DIR] [RELEASE ...]

For each release: every config it ships fits its own schema, every file under golden/ for it is
accepted without an error, and the full example written for a distant release is refused.
golden/ holds what three resources have to become in each release, stand-alone and not made by the
adapters: every line is there because the resource asks for it or because that release does not start
without it.
Exit status: 0 all as expected, 1 something is not, 2 the validator could not run.
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


def verdicts(files: list[Path], release: str, venvs: str, level: str) -> dict[Path, list[str]]:
    """The errors of each file."""
    command = [sys.executable, HERE / "validate_config.py", *files, release, "--venvs", venvs, "--json", "--level", level]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 2:
        raise OSError(f"{release}: {done.stdout}{done.stderr}")
    results = map(json.loads, done.stdout.splitlines())
    return {Path(r["file"]): [f"{f['path']}: {f['message']}" for f in r["findings"] if f["level"] == "ERROR"]
            for r in results}


def check(release: str, venvs: str, bases: Path) -> list[str]:
    distant = "0.2.12" if release not in ("0.2.12", "0.2.24") else "0.7.3"
    foreign = HERE / "golden" / f"full-example.{distant}.yaml"
    golden = sorted((HERE / "golden").glob(f"*.{release}.yaml"))
    shipped = sorted((bases / release).rglob("*.yaml"))
    own = verdicts([*golden, foreign], release, venvs, "start")
    problems = [] if own.pop(foreign) else [f"{release} accepts {foreign.name}"]
    if not golden or not shipped:
        problems.append(f"{release} has {len(golden)} golden and {len(shipped)} shipped files")
    for file, errors in [*own.items(), *verdicts(shipped, release, venvs, "schema").items()]:
        problems += [f"{release} refuses {file.name}: {error}" for error in errors]
    print(f"{release:<10} {len(golden)} golden, {len(shipped)} shipped: {'FAILED' if problems else 'ok'}", flush=True)
    return problems


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("--venvs", default=default_venvs())
    arguments.add_argument("--bases", type=Path, help="default: beside --venvs")
    arguments.add_argument("release", nargs="*", default=list(RELEASES))
    given = arguments.parse_args()
    bases = given.bases or Path(given.venvs).parent / "bases"
    # Importing a release keeps one core busy for seconds.
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
