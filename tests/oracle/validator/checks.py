"""The checks of one document."""

from __future__ import annotations

import copy

from .models import is_empty, pydantic_errors, walk_ignored, walk_models
from .release import FilesExist, Release
from .report import Report
from .variables import env_refs, set_env

# Keys of the legacy layout, which the upgrade function removes.
LEGACY_KEYS = {"routing_table", "api_providers", "provider_map", "apis_to_serve", "built_at", "docker_image", "conda_env"}

RESOURCE_API = {"models": "inference", "shields": "safety", "tool_groups": "tool_runtime", "vector_dbs": "vector_io",
                "vector_stores": "vector_io", "datasets": "datasetio", "scoring_fns": "scoring", "benchmarks": "eval"}


def enabled(pid) -> bool:
    return bool(pid) and pid != "__disabled__"


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


class Pass:
    """Validates one document, with its optional variables set or unset."""

    def __init__(self, rel: Release, raw: dict, mode: str, job: dict, rep: Report):
        self.rel, self.raw, self.mode, self.job, self.rep = rel, raw, mode, job, rep
        self.dropped: list[tuple] = []  # path, value and reason of keys that the release ignores
        self.on: dict[str, dict[str, object]] = {}  # enabled providers: API -> id -> spec

    def add(self, level: str, check: str, path: str, msg: str):
        self.rep.add(level, check, path, msg, self.mode)

    def run(self):
        set_env(self.raw, self.mode, dict(kv.split("=", 1) for kv in self.job["env"]))
        self.check_layout()
        if not self.build():
            return
        self.check_settings()
        self.check_apis()
        if not self.check_providers():
            return
        self.check_implementations()
        self.check_dependencies()
        self.check_resources()
        self.check_defaults()
        self.report_dropped()

    def check_layout(self):
        """Report the layout of releases before 0.1."""
        add, rel, raw = self.add, self.rel, self.raw
        if "routing_table" in raw or "api_providers" in raw or "apis_to_serve" in raw:
            add("ERROR" if not rel.server_upgrades else "WARN", "model", "routing_table",
                "legacy layout (version v1); the server of this release "
                + ("upgrades it" if rel.server_upgrades else "does not upgrade it; only the check of `stack run` does"))

    def build(self) -> bool:
        """Substitute variables and build the model of the release. False if substitution fails."""
        from pydantic import ValidationError

        add, rel, raw, dropped = self.add, self.rel, self.raw, self.dropped
        try:
            processed = rel.replace(copy.deepcopy(raw))
        except Exception as e:
            add("ERROR", "env", getattr(e, "path", ""), str(e))
            return False
        for path, text, *_ in env_refs(processed):
            add("ERROR", "env", path, f"{text} is still in the value after substitution")

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

        if cfg is not None:
            walk_ignored(cfg, before, "", dropped)
        else:
            known = set(rel.model.model_fields)
            dropped += [(k, v, f"{rel.model.__name__} has no such field") for k, v in before.items() if k not in known]
        self.cfg, self.before = cfg, before
        return True

    def check_settings(self):
        """Check the version and the TLS settings."""
        add, raw, cfg = self.add, self.raw, self.cfg
        if raw.get("version") not in (2, "2"):
            add("WARN", "model", "version", f"{raw.get('version')!r}: every release writes 2 here; the server does not check it")
        srv = getattr(cfg, "server", None)
        if hasattr(srv, "insecure") and not srv.insecure and not (srv.tls_certfile and srv.tls_keyfile):
            add("WARN", "model", "server", "tls_certfile and tls_keyfile are not set: `stack run` of this release does not start "
                "without --insecure")

    def check_apis(self):
        """Check that the release has every API."""
        add, rel, before = self.add, self.rel, self.before
        api_names = {a.value for a in rel.Api}
        router = {i.router_api.value: i.routing_table_api.value for i in rel.dist.builtin_automatically_routed_apis()}
        apis = before.get("apis") if isinstance(before.get("apis"), list) else None
        for i, a in enumerate(apis or []):
            if a not in api_names:
                add("ERROR", "apis", f"apis[{i}]", f"{a!r} is not an API of this release")
            elif a in router.values():
                add("WARN", "apis", f"apis[{i}]", f"{a!r} is served automatically with its router API")
        self.api_names, self.router, self.apis = api_names, router, apis

    def check_providers(self) -> bool:
        """Check every provider. False if the registry cannot be read."""
        add, rel, before, cfg = self.add, self.rel, self.before, self.cfg
        api_names, router = self.api_names, self.router
        providers = before.get("providers") if isinstance(before.get("providers"), dict) else {}
        ext_dir = before.get("external_providers_dir")
        try:
            registry = rel.dist.get_provider_registry()
        except Exception as e:
            add("ERROR", "providers", "", f"failed to read the provider registry: {type(e).__name__}: {e}")
            return False
        registry = {k.value: v for k, v in registry.items()}
        on = self.on
        backends = {}
        if cfg is not None and getattr(cfg, "storage", None) is not None:
            backends = {n: str(getattr(b.type, "value", b.type)) for n, b in cfg.storage.backends.items()}
        uses_backends = cfg is not None and hasattr(cfg, "storage")

        self.backends, self.uses_backends = backends, uses_backends

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
                self.check_provider_config(path, p, spec)
        if uses_backends:
            for where, m in walk_models(cfg.storage.stores, "storage.stores"):
                check_ref(where, m, backends, add)
        return True

    def check_provider_config(self, path: str, p: dict, spec):
        """Check `config` with the config class of the provider."""
        from pydantic import BaseModel, ValidationError

        add, rel, dropped = self.add, self.rel, self.dropped
        conf = p.get("config")
        if conf is None:
            conf = {}
        if not spec.config_class:
            return
        mod, cls = spec.config_class.rsplit(".", 1)
        try:
            klass = getattr(rel.import_module(mod), cls)
        except Exception as e:
            add("WARN", "providers", f"{path}.config", f"failed to import the config class {cls}: {e}; config not checked")
            return
        if not isinstance(conf, dict):
            add("ERROR", "providers", f"{path}.config", f"must be a mapping, got {conf!r}")
            return
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
            return
        except Exception as e:
            add("ERROR", "providers", f"{path}.config", f"{cls}: {type(e).__name__}: {e}")
            return
        if isinstance(obj, BaseModel):
            walk_ignored(obj, conf, f"{path}.config", dropped)
            for fname, info in klass.model_fields.items():
                if getattr(info, "deprecated", None) and fname in conf:
                    add("WARN", "providers", f"{path}.config.{fname}", "deprecated field")
        if self.uses_backends:
            for where, m in walk_models(obj, f"{path}.config"):
                check_ref(where, m, self.backends, add)

    def check_implementations(self):
        """Check that every listed API has an implementation."""
        add, rel = self.add, self.rel
        on, api_names, router, apis = self.on, self.api_names, self.router, self.apis
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
        self.served, self.have = served, have

    def check_dependencies(self):
        """Check that the APIs that providers need are served."""
        add, on, served, have = self.add, self.on, self.served, self.have
        for api, ps in on.items():
            for pid, spec in ps.items():
                for d in getattr(spec, "api_dependencies", None) or []:
                    if d.value not in have:
                        listed = "" if served is None or d.value in served else f" ({d.value!r} is not in `apis`)"
                        add("ERROR", "deps", f"providers.{api}({pid})",
                            f"{spec.provider_type} needs the {d.value!r} API, which no provider implements{listed}; "
                            "the server fails to start")

    def check_resources(self):
        """Check that registered resources name enabled providers."""
        add, rel, before, on = self.add, self.rel, self.before, self.on
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
                    continue  # disabled by an unset variable
                if pid == "all" and kind == "models" and rel.pkg == "ogx":
                    continue
                if pid is None:
                    if len(known) > 1 and kind in ("models", "shields"):
                        add("ERROR", "resources", path, f"no provider_id, and {len(known)} {api} providers are enabled "
                            f"({', '.join(known)}); the server cannot choose")
                    elif not known:
                        add("ERROR", "resources", path, f"no {api} provider is enabled")
                elif pid not in known:
                    add("ERROR", "resources", f"{path}.provider_id",
                        f"{pid!r} is not an enabled {api} provider (enabled: {', '.join(known) or 'none'})")
        self.res = res

    def check_defaults(self):
        """Check that defaults name something that exists."""
        add, rel, before, on, have, res = self.add, self.rel, self.before, self.on, self.have, self.res
        vs = before.get("vector_stores")
        if isinstance(vs, dict) and "vector_stores" in rel.model.model_fields:
            pid = vs.get("default_provider_id")
            if pid and pid not in on.get("vector_io", {}):
                add("WARN", "defaults", "vector_stores.default_provider_id", f"{pid!r} is not an enabled vector_io provider")
            for key in ("default_embedding_model", "default_reranker_model"):
                m = vs.get(key)
                if isinstance(m, dict) and m.get("provider_id") and m["provider_id"] not in on.get("inference", {}):
                    add("ERROR", "defaults", f"vector_stores.{key}.provider_id",
                        f"{m['provider_id']!r} is not an enabled inference provider; the server does not start when the "
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

    def report_dropped(self):
        """Report the keys that the release ignores."""
        add, rel, job, before = self.add, self.rel, self.job, self.before
        for path, value, why in self.dropped:
            if path == "logging_config":  # not in the model; the server reads it from the raw file
                continue
            if path in LEGACY_KEYS and "routing_table" in before and rel.server_upgrades:
                continue
            level = "WARN" if is_empty(value) or not job["ignored_is_error"] else "ERROR"
            note = "" if level == "ERROR" or not is_empty(value) else " (empty, harmless)"
            add(level, "ignored", path, f"silently dropped: {why}{note}")
