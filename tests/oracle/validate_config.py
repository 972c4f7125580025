#!/usr/bin/env python3
"""Validate llama-stack / ogx config.yaml files against one real release.

    validate_config.py CONFIG... RELEASE [options]

RELEASE is a release for which setup.py created an environment: 0.2.12 ... 0.7.3, ogx-1.5.0.
The script runs itself again with the interpreter of that environment, where the package `validator`
uses only the code of the release: its env substitution, its StackRunConfig/StackConfig, its provider
registry and the config class of every provider.  No schema is written down here.

The checks, in this order:
  yaml       parses, is a mapping, has no duplicate keys
  env        every ${env...} expression has the syntax this release substitutes
  model      the pydantic model of the release accepts it (built as the server does at start-up)
  ignored    no non-empty key is silently dropped by the model or by a provider's config class
             (pydantic ignores unknown keys, so a wrong key is otherwise not reported)
  apis       each entry of `apis` exists in this release and will have an implementation
  providers  provider_type is in the registry for that API, is not withdrawn, its config class
             accepts `config`, ids are unique
  storage    each store reference in the config or in a provider names a backend of the right kind
  deps       each enabled provider's required APIs are present (the server refuses to start otherwise)
  resources  models / shields / tool groups / vector stores name an enabled provider of the right API
  defaults   vector_stores / safety defaults name something that exists

--level schema stops after `providers`/`storage`, that is, once the release accepts the file;
--level start, the default, also reports dropped keys and what stops the server from starting.

Every file is validated twice: `unset` (only variables written as bare ${env.X} get a dummy value, so
conditional providers are off) and `set` (every variable without a non-empty default gets one,
so conditional providers are on).  Choose one with --env-mode; give real values with --env K=V.
A value that is invalid only while its variable is unset is a warning that names the variable.

Importing a release takes seconds, a file a fraction of one: pass all files of a release at once.
With --json each file gives one line {"file", "release", "ok", "findings": [{"level", "check", "path",
"message", "env"}]}, in the order given.

Exit status: 0 no errors, 1 errors, 2 the oracle failed (no environment, unreadable file, or a bug in
the oracle, which is also a finding of the check `oracle`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

INNER = "--inner-process"


def default_venvs() -> str:
    cache = os.environ.get("LLSD_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "llsd")
    return os.path.join(cache, "oracle", "venvs")


def outer(argv: list[str]) -> int:
    ap = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    ap.add_argument("config", nargs="+", help="config.yaml file(s)")
    ap.add_argument("release", help="release, e.g. 0.7.3 or ogx-1.5.0")
    ap.add_argument("--venvs", default=default_venvs(), help="folder that setup.py created (default %(default)s)")
    ap.add_argument("--env", action="append", default=[], metavar="K=V", help="value for an env var (both passes)")
    ap.add_argument("--env-mode", choices=["both", "unset", "set"], default="both")
    ap.add_argument("--level", choices=["schema", "start"], default="start")
    ap.add_argument("--json", action="store_true", help="one JSON object per file on stdout")
    ap.add_argument("--no-ignored", action="store_true", help="report dropped keys as warnings, not errors")
    ap.add_argument("--quiet", action="store_true", help="no warnings, no OK line")
    ns = ap.parse_args(argv)
    rel = ns.release.removeprefix("llama-stack-").removeprefix("llama_stack-")
    python = os.path.join(ns.venvs, rel, "bin", "python")
    if not os.path.exists(python):
        have = sorted(d for d in os.listdir(ns.venvs) if os.path.exists(os.path.join(ns.venvs, d, "bin", "python"))) \
            if os.path.isdir(ns.venvs) else []
        print(f"oracle: no environment for release {rel!r} in {ns.venvs} (found: {', '.join(have) or 'none'}); run setup.py",
              file=sys.stderr)
        return 2
    job = {"files": [os.path.abspath(f) for f in ns.config], "names": ns.config, "release": rel, "env": ns.env,
           "env_mode": ns.env_mode, "level": ns.level, "json": ns.json, "ignored_is_error": not ns.no_ignored, "quiet": ns.quiet}
    # A clean environment, so that the caller's variables do not take part in substitution.
    keep = {k: os.environ[k] for k in ("PATH", "LANG", "LC_ALL", "TMPDIR") if k in os.environ}
    keep.update({"HOME": "/nonexistent-home", "PYTHONWARNINGS": "ignore", "LLAMA_STACK_LOGGING": "all=critical",
                 "OGX_LOGGING": "all=critical"})
    inner = [python, "-I", os.path.abspath(__file__), INNER]
    # Pass the job through a pipe, because a list of many files is too long for an argument.
    return subprocess.run(inner, env=keep, input=json.dumps(job), text=True).returncode


def inner() -> int:
    # The isolated interpreter does not search this folder. Add it last, so that it hides no module.
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from validator.worker import run

    return run()


if __name__ == "__main__":
    if sys.argv[1:] == [INNER]:
        sys.exit(inner())
    sys.exit(outer(sys.argv[1:]))
