"""${env...} expressions: their syntax, and values for them."""

from __future__ import annotations

import os
import re
import tempfile

from .release import Release

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
    """A value of the right form for a field. Its content does not matter."""
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
    if n.endswith("MODEL"):  # some config classes accept only known names
        return "meta-llama/Llama-Guard-3-1B" if "SAFETY" in n else "meta-llama/Llama-3.2-3B-Instruct"
    return "dummy-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def env_syntax(rel: Release, raw, add):
    """Check with the substitution of the release that each expression has its usual meaning."""
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
                    add("ERROR", "env", path, f"{text}: this release does not support ':{rest[1]}'; an unset variable yields {off!r}"
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
            continue  # an alternative to the API key; the release rejects both at once
        if bare or (mode == "set" and (conditional or default == "" or default == "\u200b")):
            # a use as a URL takes precedence over a plain one
            v = dummy(name, path)
            if name not in values or v.startswith(("http", "postgresql")):
                values[name] = v
    values.update(given)
    for k in [p[2] for p in env_refs(raw)]:
        os.environ.pop(k, None)
    os.environ.update(values)
    return values
