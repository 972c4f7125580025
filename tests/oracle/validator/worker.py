"""Validates all files of a job, and prints the findings."""

from __future__ import annotations

import json
import os
import sys
import traceback

from .checks import Pass
from .models import load_yaml
from .release import Release
from .report import Report
from .variables import env_refs, env_syntax

SCHEMA_CHECKS = {"yaml", "env", "model", "storage", "providers"}


def finish(raw, job, rep: Report):
    """Remove what --level leaves out, and turn errors that only an unset variable causes into warnings."""
    empties = [(p, name) for p, _, name, rest in env_refs(raw) if rest in (":=", ":", "+") or rest.startswith(":+")]
    for key in list(rep.items):
        level, check, path, msg = key
        modes = rep.items[key]
        soft = check not in SCHEMA_CHECKS or (check == "providers" and "is used twice" in msg)
        if job["level"] == "schema" and soft and not (check == "apis" and "is not an API" in msg):
            del rep.items[key]
            continue
        if level == "ERROR" and set(modes) == {"unset"} and job["env_mode"] == "both" and check in ("model", "providers"):
            tail = path.rsplit(")", 1)[-1]
            names = sorted({n for p, n in empties if tail and p.endswith(tail)})
            if names:
                del rep.items[key]
                rep.add("WARN", check, path, f"{msg}; only while {' / '.join(names)} is unset", "unset")


def run() -> int:
    import logging
    import warnings

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    job = json.load(sys.stdin)
    real_out, real_err = os.dup(1), os.dup(2)
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)  # releases print to stdout on import
    os.dup2(devnull, 2)
    try:
        rel = Release()
        failure = None
    except Exception:
        failure = traceback.format_exc()
    results = []
    broken = False
    if failure is None:
        logging.disable(logging.CRITICAL)
        for path, name in zip(job["files"], job["names"]):
            rep = Report()
            try:
                raw, dups = load_yaml(path)
            except OSError as e:
                failure = str(e)
                break
            except Exception as e:
                rep.add("ERROR", "yaml", "", " ".join(str(e).split()), "yaml")
                results.append((name, rep))
                continue
            for d in dups:
                rep.add("ERROR", "yaml", "", f"duplicate key {d}", "yaml")
            if not isinstance(raw, dict):
                rep.add("ERROR", "yaml", "", "the document is not a mapping", "yaml")
                results.append((name, rep))
                continue
            try:
                env_syntax(rel, raw, lambda level, check, p, msg: rep.add(level, check, p, msg, "any"))
                for mode in (("unset", "set") if job["env_mode"] == "both" else (job["env_mode"],)):
                    Pass(rel, raw, mode, job, rep).run()
                finish(raw, job, rep)
            except Exception:  # a bug of the oracle; the other files are still reported
                broken = True
                rep.add("ERROR", "oracle", "", traceback.format_exc(), "any")
            results.append((name, rep))
    sys.stdout.flush()
    os.dup2(real_out, 1)
    os.dup2(real_err, 2)
    out = sys.stdout
    if failure:
        print(f"oracle: {failure}", file=sys.stderr)
        return 2
    bad = 0
    for name, rep in results:
        errs = rep.errors()
        bad += bool(errs)
        if job["json"]:
            print(json.dumps({"file": name, "release": job["release"], "ok": not errs, "findings": [
                {"level": lv, "check": ck, "path": p, "message": m, "env": sorted(set(modes))}
                for (lv, ck, p, m), modes in rep.items.items()]}), file=out)
            continue
        for (lv, ck, p, m), modes in rep.items.items():
            if lv == "WARN" and job["quiet"]:
                continue
            only = "" if len(set(modes)) > 1 or modes[0] in ("any", "yaml") or job["env_mode"] != "both" else f" [env {modes[0]}]"
            print(f"{lv:5} {ck:9} {p or '-'}: {m}{only}", file=out)
        if not (job["quiet"] and not errs):
            print(f"{'FAIL' if errs else 'OK'} {name} under {job['release']}: {len(errs)} error(s), "
                  f"{len(rep.items) - len(errs)} warning(s)", file=out)
    out.flush()
    return 2 if broken else 1 if bad else 0
