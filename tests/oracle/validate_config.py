#!/usr/bin/env python3
"""Validate llama-stack / ogx config.yaml files against one real release.

    validate_config.py CONFIG... RELEASE [options]

RELEASE is a name setup.py made an environment for: 0.2.12 ... 0.7.3, ogx-1.5.0.
The script runs itself again with that environment's interpreter and there uses only the release's own
code: its env substitution, its StackRunConfig/StackConfig, its provider registry and every
provider's own config class.  Nothing about the schema is written down here.

What it checks, in this order:
  yaml       parses, is a mapping, has no duplicate keys
  env        every ${env...} expression has the syntax this release substitutes
  model      the release's pydantic model accepts it (as the server's own start-up code builds it)
  ignored    no non-empty key is silently dropped by the model or by a provider's config class
             (pydantic ignores unknown keys, so a wrong key is otherwise never reported)
  apis       each entry of `apis` exists in this release and will have an implementation
  providers  provider_type is in the registry for that API, is not withdrawn, its config class
             accepts `config`, ids are unique
  storage    each store reference in the config or in a provider names a backend of the right kind
  deps       each enabled provider's required APIs are present (the server refuses to start otherwise)
  resources  models / shields / tool groups / vector stores name an enabled provider of the right API
  defaults   vector_stores / safety defaults name something that exists

--level schema stops after `providers`/`storage` (does the release accept the file at all);
--level start, the default, also reports what would be dropped or stop the server from starting.

Two passes are made: `unset` (only variables written as bare ${env.X} get a dummy value, so
conditional providers are off) and `set` (every variable without a non-empty default gets one,
so conditional providers are on).  Choose one with --env-mode; give real values with --env K=V.
A value that is only bad while its variable is unset is a warning that names the variable.

Importing a release takes seconds and a file a fraction of one: give all files of a release at once.
With --json each gives one line {"file", "release", "ok", "findings": [{"level", "check", "path",
"message", "env"}]}, in the order given.

Exit status: 0 no errors, 1 errors, 2 the oracle could not run (no environment, unreadable file, or a
failure of its own, which is also a finding of the check `oracle`).
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import re
import subprocess
import sys
import tempfile
import traceback

INNER = "--inner-process"


def default_venvs() -> str:
    cache = os.environ.get("LLSD_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "llsd")
    return os.path.join(cache, "oracle", "venvs")


# --------------------------------------------------------------------------- outer process


def outer(argv: list[str]) -> int:
    ap = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    ap.add_argument("config", nargs="+", help="config.yaml file(s)")
    ap.add_argument("release", help="release, e.g. 0.7.3 or ogx-1.5.0")
    ap.add_argument("--venvs", default=default_venvs(), help="folder made by setup.py (default %(default)s)")
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
        print(f"oracle: no environment for release {rel!r} under {ns.venvs} (have: {', '.join(have) or 'none'}); run setup.py",
              file=sys.stderr)
        return 2
    job = {"files": [os.path.abspath(f) for f in ns.config], "names": ns.config, "release": rel, "env": ns.env,
           "env_mode": ns.env_mode, "level": ns.level, "json": ns.json, "ignored_is_error": not ns.no_ignored, "quiet": ns.quiet}
    # A clean environment: the caller's variables must not leak into substitution.
    keep = {k: os.environ[k] for k in ("PATH", "LANG", "LC_ALL", "TMPDIR") if k in os.environ}
    keep.update({"HOME": "/nonexistent-home", "PYTHONWARNINGS": "ignore", "LLAMA_STACK_LOGGING": "all=critical",
                 "OGX_LOGGING": "all=critical"})
    inner = [python, "-I", os.path.abspath(__file__), INNER]
    # The job goes through a pipe: a list of many files is too long for an argument.
    return subprocess.run(inner, env=keep, input=json.dumps(job), text=True).returncode


# --------------------------------------------------------------------------- inner process


class Report:
    def __init__(self):
        self.items: dict[tuple, list[str]] = {}

    def add(self, level: str, check: str, path: str, msg: str, mode: str):
        msg = " ".join(str(msg).split())
        if len(msg) > 420:
            msg = msg[:400] + " ..."
        self.items.setdefault((level, check, path, msg), []).append(mode)

    def errors(self):
        return [k for k in self.items if k[0] == "ERROR"]


class Release:
    """The few entry points that differ by release, found by looking, not by version number."""

    def __init__(self):
        import importlib
        import importlib.util

        self.pkg = "ogx" if importlib.util.find_spec("ogx") else "llama_stack"
        core = "core" if importlib.util.find_spec(f"{self.pkg}.core") else "distribution"
        imp = lambda leaf: importlib.import_module(f"{self.pkg}.{core}.{leaf}")  # noqa: E731
        dt, self.stack, dist = imp("datatypes"), imp("stack"), imp("distribution")
        self.model = getattr(dt, "StackConfig", None) or dt.StackRunConfig
        self.dist = dist
        self.replace = self.stack.replace_env_vars
        self.cast = next((getattr(self.stack, n) for n in ("cast_distro_name_to_string", "cast_image_name_to_string")
                          if hasattr(self.stack, n)), lambda d: d)
        self.configure = imp("configure")
        self.import_module = importlib.import_module
        # ogx's server start-up goes through the upgrade function, llama-stack's builds the model directly.
        import inspect

        try:
            src = inspect.getsource(imp("server.server"))
        except Exception:
            src = ""
        self.server_upgrades = "parse_and_maybe_upgrade_config" in src
        self.api_missing_impl_is_fatal = "Skipping API with no implementation" not in src
        apis = next(m for m in (self._try(f"{self.pkg}_api"), self._try(f"{self.pkg}.apis.datatypes"),
                                self._try(f"{self.pkg}.providers.datatypes")) if m and hasattr(m, "Api"))
        self.Api = apis.Api

    def _try(self, name):
        try:
            return self.import_module(name)
        except ImportError:
            return None

    def build(self, processed: dict):
        if self.server_upgrades:
            return self.configure.parse_and_maybe_upgrade_config(processed)
        return self.model(**self.cast(processed))


class FilesExist:
    """Certificates and CA bundles live in the pod, not here: while a config class runs, every path exists."""

    def __enter__(self):
        import pathlib

        self.old = pathlib.Path.exists, pathlib.Path.is_file
        pathlib.Path.exists = lambda s, **k: True
        pathlib.Path.is_file = lambda s, **k: True

    def __exit__(self, *exc):
        import pathlib

        pathlib.Path.exists, pathlib.Path.is_file = self.old


def load_yaml(path: str):
    import yaml

    dups: list[str] = []

    class Loader(yaml.SafeLoader):
        pass

    def mapping(loader, node, deep=False):
        seen = set()
        for k, _ in node.value:
            key = loader.construct_object(k, deep=True)
            if key in seen:
                dups.append(f"{key!r} (line {k.start_mark.line + 1})")
            seen.add(key)
        loader.flatten_mapping(node)
        return yaml.SafeLoader.construct_mapping(loader, node, deep=True)

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    with open(path) as f:
        return yaml.load(f, Loader=Loader), dups  # noqa: S506 - subclass of SafeLoader


ENV_ANY = re.compile(r"\$\{env\.([^}:+=]*)([^}]*)\}?")


def env_refs(node, path=""):
    """Yield (path, text, name, rest) for every ${env...} in the tree, whatever its syntax."""
    if isinstance(node, dict):
        for k, v in node.items():
            yield from env_refs(v, f"{path}.{k}" if path else str(k))
    elif isinstance(node, list):
        for i, v in enumerate(node):
            yield from env_refs(v, f"{path}[{i}]")
    elif isinstance(node, str) and "${env." in node:
        for m in ENV_ANY.finditer(node):
            yield path, m.group(0), m.group(1), m.group(2)


def dummy(name: str, path: str) -> str:
    """A value a field of this kind would take; only the shape matters."""
    n = name.upper()
    leaf = path.rsplit(".", 1)[-1].lower()
    both = n + " " + leaf.upper()
    if re.search(r"(^|_)PORT$", n) or leaf == "port":
        return "15432"
    if leaf in ("verify", "tls_verify", "use_https", "verify_tls"):
        return "true"
    if any(s in both for s in ("MAX_TOKENS", "DIMENSION", "POOL_SIZE", "TIMEOUT", "MAX_OVERFLOW", "MAX_RESULTS")):
        return "384"
    if "CONNECTION_STRING" in both or leaf == "connection_string":
        return "postgresql://user:dummy@db.example:5432/stack"
    if leaf in ("url", "uri", "base_url", "api_base", "endpoint", "endpoint_url") or leaf.endswith(("_url", "_api_base")) \
            or n.endswith(("URL", "ENDPOINT", "API_BASE", "URI")):
        return "http://dummy.example:8000/v1"
    if leaf.endswith(("_dir", "_path")) or n.endswith(("_DIR", "_PATH")):
        return os.path.join(tempfile.gettempdir(), "oracle-dummy")
    if leaf == "oci_auth_type":
        return "instance_principal"
    if n.endswith("MODEL"):  # some config classes only take names they know
        return "meta-llama/Llama-Guard-3-1B" if "SAFETY" in n else "meta-llama/Llama-3.2-3B-Instruct"
    return "dummy-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def env_syntax(rel: Release, raw, add):
    """Ask the release's own substitution whether each expression means what its text says."""
    saved = dict(os.environ)
    try:
        for path, text, name, rest in env_refs(raw):
            if not re.fullmatch(r"[A-Z0-9_]+", name):
                add("ERROR", "env", path, f"{text}: variable names must match [A-Z0-9_]+ or they are not substituted")
                continue
            if not text.endswith("}"):
                add("ERROR", "env", path, f"{text}: unterminated expression")
                continue
            os.environ[name] = "ORACLEPROBE"
            try:
                on = rel.replace({"x": text})["x"]
            except Exception as e:
                on = e
            os.environ.pop(name, None)
            try:
                off = rel.replace({"x": text})["x"]
            except Exception as e:
                off = e
            if rest.startswith((":=", ":+")):
                want_off = rest[2:] if rest[1] == "=" else ""
                bad = isinstance(off, str) and off.startswith(("=", "+")) and not want_off.startswith(("=", "+"))
                if bad or on == text:
                    add("ERROR", "env", path, f"{text}: this release does not know ':{rest[1]}'; unset it yields {off!r}"
                        " (it uses ${env.X:default} and ${env.X+value})")
            elif rest:
                if on == text:
                    add("ERROR", "env", path, f"{text}: not substituted by this release; write ${{env.{name}:=default}}")
            elif on != "ORACLEPROBE":
                add("ERROR", "env", path, f"{text}: not substituted by this release")
    finally:
        os.environ.clear()
        os.environ.update(saved)


def set_env(raw, mode: str, given: dict):
    values = {}
    for path, text, name, rest in env_refs(raw):
        if not re.fullmatch(r"[A-Z0-9_]+", name):
            continue
        default = rest[2:] if rest.startswith((":=",)) else rest[1:] if rest.startswith(":") and not rest.startswith(":+") \
            else None
        bare = rest == ""
        conditional = rest.startswith((":+", "+"))
        if mode == "set" and not bare and not conditional and name.endswith(("ACCESS_TOKEN", "_AI_PROJECT")):
            continue  # an alternative to the API key; both at once are refused
        if bare or (mode == "set" and (conditional or default == "" or default == "\u200b")):
            # a URL shaped use decides over a plain one
            v = dummy(name, path)
            if name not in values or v.startswith(("http", "postgresql")):
                values[name] = v
    values.update(given)
    for k in [p[2] for p in env_refs(raw)]:
        os.environ.pop(k, None)
    os.environ.update(values)
    return values


def is_empty(v) -> bool:
    return v is None or v == "" or v == [] or v == {}


def walk_ignored(obj, raw, path, out):
    """Compare what was written with what the validated object kept."""
    from pydantic import BaseModel

    if isinstance(obj, BaseModel) and isinstance(raw, dict):
        cls = type(obj)
        cfg = getattr(cls, "model_config", {}) or {}
        by_name = cfg.get("populate_by_name") or cfg.get("validate_by_name")
        names = {}
        for fname, info in cls.model_fields.items():
            alias = info.validation_alias if isinstance(info.validation_alias, str) else info.alias
            names[alias or fname] = fname
            if by_name:
                names[fname] = fname
        for k, v in raw.items():
            p = f"{path}.{k}" if path else str(k)
            if k not in names:
                if cfg.get("extra") == "allow":
                    continue
                out.append((p, v, f"{cls.__name__} has no such field (has: {', '.join(sorted(names))})"))
                continue
            cur = getattr(obj, names[k], None)
            if isinstance(v, (list, dict)) and v and isinstance(cur, (list, dict)) and not cur:
                out.append((p, v, f"{cls.__name__} discards the value of {k!r} in this release"))
                continue
            walk_ignored(cur, v, p, out)
    elif isinstance(obj, list) and isinstance(raw, list) and len(obj) == len(raw):
        for i, (o, r) in enumerate(zip(obj, raw)):
            walk_ignored(o, r, f"{path}[{i}]", out)
    elif isinstance(obj, dict) and isinstance(raw, dict):
        for k, r in raw.items():
            if k in obj:
                walk_ignored(obj[k], r, f"{path}.{k}", out)


def pydantic_errors(e, prefix=""):
    for err in e.errors():
        loc = prefix
        for part in err["loc"]:
            loc += f"[{part}]" if isinstance(part, int) else (f".{part}" if loc else str(part))
        given = err.get("input")
        shown = "" if isinstance(given, (dict, list)) else f" (got {given!r})"
        yield loc, err["msg"] + shown


def walk_models(obj, path=""):
    from pydantic import BaseModel

    if isinstance(obj, BaseModel):
        yield path, obj
        for f in type(obj).model_fields:
            yield from walk_models(getattr(obj, f, None), f"{path}.{f}" if path else f)
    elif isinstance(obj, dict):
        for k, v in obj.items():
            yield from walk_models(v, f"{path}.{k}")
    elif isinstance(obj, (list, tuple)):
        for i, v in enumerate(obj):
            yield from walk_models(v, f"{path}[{i}]")


def enabled(pid) -> bool:
    return bool(pid) and pid != "__disabled__"


RESOURCE_API = {"models": "inference", "shields": "safety", "tool_groups": "tool_runtime", "vector_dbs": "vector_io",
                "vector_stores": "vector_io", "datasets": "datasetio", "scoring_fns": "scoring", "benchmarks": "eval"}


def one_pass(rel: Release, raw: dict, mode: str, job: dict, rep: Report):
    from pydantic import BaseModel, ValidationError

    add = lambda level, check, path, msg: rep.add(level, check, path, msg, mode)  # noqa: E731
    given = dict(kv.split("=", 1) for kv in job["env"])
    set_env(raw, mode, given)

    if "routing_table" in raw or "api_providers" in raw or "apis_to_serve" in raw:
        add("ERROR" if not rel.server_upgrades else "WARN", "model", "routing_table",
            "legacy (version v1) layout; the server's start-up code in this release "
            + ("upgrades it" if rel.server_upgrades else "does not upgrade it, only `stack run`'s pre-check does"))

    try:
        processed = rel.replace(copy.deepcopy(raw))
    except Exception as e:
        add("ERROR", "env", getattr(e, "path", ""), str(e))
        return
    for path, text, *_ in env_refs(processed):
        add("ERROR", "env", path, f"{text} is left in the value after substitution")

    before = copy.deepcopy(processed)
    try:
        cfg = rel.build(processed)
    except ValidationError as e:
        for loc, msg in pydantic_errors(e):
            add("ERROR", "model", loc, msg)
        cfg = None
    except Exception as e:
        add("ERROR", "model", "", f"{type(e).__name__}: {e}")
        cfg = None

    legacy = {"routing_table", "api_providers", "provider_map", "apis_to_serve", "built_at", "docker_image", "conda_env"}
    dropped = []
    if cfg is not None:
        walk_ignored(cfg, before, "", dropped)
    else:
        known = set(rel.model.model_fields)
        dropped += [(k, v, f"{rel.model.__name__} has no such field") for k, v in before.items() if k not in known]

    if raw.get("version") not in (2, "2"):
        add("WARN", "model", "version", f"{raw.get('version')!r}: every release writes 2 here (the server does not check it)")
    srv = getattr(cfg, "server", None)
    if hasattr(srv, "insecure") and not srv.insecure and not (srv.tls_certfile and srv.tls_keyfile):
        add("WARN", "model", "server", "no tls_certfile/tls_keyfile and not insecure: this release's `stack run` refuses to "
            "start without --insecure")

    # ---- apis
    api_names = {a.value for a in rel.Api}
    router = {i.router_api.value: i.routing_table_api.value for i in rel.dist.builtin_automatically_routed_apis()}
    apis = before.get("apis") if isinstance(before.get("apis"), list) else None
    for i, a in enumerate(apis or []):
        if a not in api_names:
            add("ERROR", "apis", f"apis[{i}]", f"{a!r} is not an API of this release")
        elif a in router.values():
            add("WARN", "apis", f"apis[{i}]", f"{a!r} is served automatically with its router API")

    # ---- providers
    providers = before.get("providers") if isinstance(before.get("providers"), dict) else {}
    ext_dir = before.get("external_providers_dir")
    try:
        registry = rel.dist.get_provider_registry()
    except Exception as e:
        add("ERROR", "providers", "", f"registry of this release cannot be read: {type(e).__name__}: {e}")
        return
    registry = {k.value: v for k, v in registry.items()}
    on: dict[str, dict[str, object]] = {}
    backends = {}
    if cfg is not None and getattr(cfg, "storage", None) is not None:
        backends = {n: str(getattr(b.type, "value", b.type)) for n, b in cfg.storage.backends.items()}
    uses_backends = cfg is not None and hasattr(cfg, "storage")

    for api, plist in providers.items():
        base = f"providers.{api}"
        if api not in api_names:
            add("ERROR", "providers", base, f"{api!r} is not an API of this release")
            continue
        if api not in registry:
            why = "is served automatically and takes no providers" if api in router.values() else "has no provider registry"
            add("ERROR", "providers", base, f"API {api!r} {why} in this release")
            continue
        on[api] = {}
        for i, p in enumerate(plist or []):
            path = f"{base}[{i}]"
            if not isinstance(p, dict):
                add("ERROR", "providers", path, "not a mapping")
                continue
            pid, ptype = p.get("provider_id"), p.get("provider_type")
            if not enabled(pid):
                continue
            path = f"{base}[{i}]({pid})"
            if pid in on[api]:
                add("ERROR", "providers", path, f"provider_id {pid!r} is used twice in {api}; the server keeps only the last")
            spec = registry[api].get(ptype)
            if spec is None:
                if p.get("module") or ext_dir:
                    on[api][pid] = None
                    add("WARN", "providers", path, f"{ptype!r} is external (module/external_providers_dir); config not checked")
                    continue
                near = [t for t in registry[api] if isinstance(ptype, str) and t.split("::")[-1] == ptype.split("::")[-1]]
                tip = f"; this release has {', '.join(near)}" if near else f"; this release has: {', '.join(sorted(registry[api]))}"
                add("ERROR", "providers", path, f"provider_type {ptype!r} is not available for API {api!r}{tip}")
                continue
            on[api][pid] = spec
            if getattr(spec, "deprecation_error", None):
                add("ERROR", "providers", path, f"withdrawn: {spec.deprecation_error}")
            elif getattr(spec, "deprecation_warning", None):
                add("WARN", "providers", path, f"deprecated: {spec.deprecation_warning}")
            conf = p.get("config")
            if conf is None:
                conf = {}
            if not spec.config_class:
                continue
            mod, cls = spec.config_class.rsplit(".", 1)
            try:
                klass = getattr(rel.import_module(mod), cls)
            except Exception as e:
                add("WARN", "providers", f"{path}.config", f"config class {cls} cannot be imported here ({e}); not checked")
                continue
            if not isinstance(conf, dict):
                add("ERROR", "providers", f"{path}.config", f"must be a mapping, got {conf!r}")
                continue
            try:
                with FilesExist():
                    obj = klass(**copy.deepcopy(conf))
            except ValidationError as e:
                for loc, msg in pydantic_errors(e, f"{path}.config"):
                    add("ERROR", "providers", loc, f"{cls}: {msg}")
                keys = {(i.validation_alias if isinstance(i.validation_alias, str) else i.alias) or f
                        for f, i in klass.model_fields.items()}
                dropped += [(f"{path}.config.{k}", v, f"{cls} has no such field (has: {', '.join(sorted(keys))})")
                            for k, v in conf.items() if k not in keys]
                continue
            except Exception as e:
                add("ERROR", "providers", f"{path}.config", f"{cls}: {type(e).__name__}: {e}")
                continue
            if isinstance(obj, BaseModel):
                walk_ignored(obj, conf, f"{path}.config", dropped)
                for fname, info in klass.model_fields.items():
                    if getattr(info, "deprecated", None) and fname in conf:
                        add("WARN", "providers", f"{path}.config.{fname}", "deprecated field")
            if uses_backends:
                for where, m in walk_models(obj, f"{path}.config"):
                    check_ref(where, m, backends, add)

    if uses_backends:
        for where, m in walk_models(cfg.storage.stores, "storage.stores"):
            check_ref(where, m, backends, add)

    # ---- one implementation for every served API
    served = apis if apis else None
    routed_on = {a for a in router if served is None or a in served}
    have = set(on) | {"inspect", "providers"}
    have = {a for a in have if a not in router or a in routed_on}
    have |= {router[a] for a in routed_on}
    have |= routed_on
    have = {a for a in have if a in router or a in router.values() or a in ("inspect", "providers") or on.get(a)}
    for extra in ("prompts", "conversations", "connectors", "admin"):
        if extra in api_names:
            have.add(extra)
    for i, a in enumerate(apis or []):
        if a in api_names and a not in have:
            add("ERROR" if rel.api_missing_impl_is_fatal else "WARN", "apis", f"apis[{i}]",
                f"{a!r} is listed but no enabled provider implements it; the server "
                + ("fails to start" if rel.api_missing_impl_is_fatal else "skips it"))
        elif a in router and not on.get(a):
            add("WARN", "apis", f"apis[{i}]", f"{a!r} is listed but has no enabled provider")

    # ---- required API dependencies
    for api, ps in on.items():
        for pid, spec in ps.items():
            for d in getattr(spec, "api_dependencies", None) or []:
                if d.value not in have:
                    listed = "" if served is None or d.value in served else f" ({d.value!r} is not in `apis`)"
                    add("ERROR", "deps", f"providers.{api}({pid})",
                        f"{spec.provider_type} needs the {d.value!r} API, which nothing provides{listed}; "
                        "the server fails to start")

    # ---- registered resources
    res = before.get("registered_resources") if isinstance(before.get("registered_resources"), dict) else before
    rpath = "registered_resources." if res is not before else ""
    for kind, api in RESOURCE_API.items():
        items = res.get(kind)
        if not isinstance(items, list):
            continue
        known = on.get(api, {})
        for i, r in enumerate(items):
            if not isinstance(r, dict):
                continue
            path = f"{rpath}{kind}[{i}]"
            idk = next((k for k in r if k.endswith("_id") and not k.startswith("provider")), None)
            if idk and is_empty(r.get(idk)):
                continue
            pid = r.get("provider_id")
            if "provider_id" in r and not enabled(pid):
                continue  # switched off by an unset variable
            if pid == "all" and kind == "models" and rel.pkg == "ogx":
                continue
            if pid is None:
                if len(known) > 1 and kind in ("models", "shields"):
                    add("ERROR", "resources", path, f"no provider_id, and {len(known)} {api} providers are enabled "
                        f"({', '.join(known)}); the server cannot choose")
                elif not known:
                    add("ERROR", "resources", path, f"needs an enabled {api} provider and there is none")
            elif pid not in known:
                add("ERROR", "resources", f"{path}.provider_id",
                    f"{pid!r} is not an enabled {api} provider (enabled: {', '.join(known) or 'none'})")

    # ---- defaults that must resolve at start-up
    vs = before.get("vector_stores")
    if isinstance(vs, dict) and "vector_stores" in rel.model.model_fields:
        pid = vs.get("default_provider_id")
        if pid and pid not in on.get("vector_io", {}):
            add("WARN", "defaults", "vector_stores.default_provider_id", f"{pid!r} is not an enabled vector_io provider")
        for key in ("default_embedding_model", "default_reranker_model"):
            m = vs.get(key)
            if isinstance(m, dict) and m.get("provider_id") and m["provider_id"] not in on.get("inference", {}):
                add("ERROR", "defaults", f"vector_stores.{key}.provider_id",
                    f"{m['provider_id']!r} is not an enabled inference provider; the server refuses to start when the "
                    "model is not listed")
    sf = before.get("safety")
    if isinstance(sf, dict) and sf.get("default_shield_id") and "safety" in rel.model.model_fields:
        shields = [s.get("shield_id") for s in (res.get("shields") or [])
                   if isinstance(s, dict) and ("provider_id" not in s or enabled(s["provider_id"])) and s.get("shield_id")]
        if "safety" not in have:
            add("ERROR", "defaults", "safety.default_shield_id", "set, but the safety API is not served")
        elif shields and sf["default_shield_id"] not in shields:
            add("ERROR", "defaults", "safety.default_shield_id",
                f"{sf['default_shield_id']!r} is not among the registered shields ({', '.join(shields)})")

    # ---- dropped keys
    for path, value, why in dropped:
        if path == "logging_config":  # not in the model, but the server reads it from the raw file
            continue
        if path in legacy and "routing_table" in before and rel.server_upgrades:
            continue
        level = "WARN" if is_empty(value) or not job["ignored_is_error"] else "ERROR"
        note = "" if level == "ERROR" or not is_empty(value) else " (empty, harmless)"
        add(level, "ignored", path, f"silently dropped: {why}{note}")


SCHEMA_CHECKS = {"yaml", "env", "model", "storage", "providers"}


def settle(raw, job, rep: Report):
    """Drop what --level leaves out; turn errors that only an unset variable causes into warnings."""
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


def check_ref(where, m, backends, add):
    fields = set(type(m).model_fields)
    if "backend" not in fields or not ({"namespace", "table_name"} & fields):
        return
    want = "sql_" if "table_name" in fields else "kv_"
    b = getattr(m, "backend", None)
    if b not in backends:
        add("ERROR", "storage", f"{where}.backend", f"unknown backend {b!r} (storage.backends has: {', '.join(sorted(backends))})")
    elif not backends[b].startswith(want):
        add("ERROR", "storage", f"{where}.backend", f"{b!r} is a {backends[b]} backend, a {want}* one is needed")


def inner() -> int:
    import logging
    import warnings

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    job = json.load(sys.stdin)
    real_out, real_err = os.dup(1), os.dup(2)
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)  # releases log to stdout while importing
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
                rep.add("ERROR", "yaml", "", "top level is not a mapping", "yaml")
                results.append((name, rep))
                continue
            try:
                env_syntax(rel, raw, lambda level, check, p, msg: rep.add(level, check, p, msg, "any"))
                for mode in (("unset", "set") if job["env_mode"] == "both" else (job["env_mode"],)):
                    one_pass(rel, raw, mode, job, rep)
                settle(raw, job, rep)
            except Exception:  # ours, not the file's; the other files still count
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


if __name__ == "__main__":
    if sys.argv[1:] == [INNER]:
        sys.exit(inner())
    sys.exit(outer(sys.argv[1:]))
