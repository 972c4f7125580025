#!/usr/bin/env python3
"""Print the provider catalogue of the llama-stack / ogx release installed in this interpreter.

    <venv of a release>/bin/python -I extract.py > llama-stack-0.7.3.txt
    <venv of a release>/bin/python -I extract.py --layout llama-stack-0.7.3 >> layouts.txt

One line per (API, provider type), sorted, in seven columns separated by one space:

    api type endpoint credential needs toolgroup fields

endpoint    key:kind[:path] or "-". kind: http (typed as a URL, a scheme is enforced), url, host
            (a bare host name), dsn. path: "/v1" when the provider talks below /v1 and does not add
            it, "bare" when it adds /v1 itself.
credential  the key that takes the secret, or "-"
needs       APIs that must be served for the provider to start, or "-"
toolgroup   the tool group that a tool_runtime provider registers by itself, or "-"
fields      "-" or every key of the provider's configuration, each with marks:
            !  required          ?  must be present, may be null      ~  deprecated
            =kv =sql             a store of that kind, which the generator fills in
            =a:kv+b:sql          an object of stores
            =file =dir           a path that belongs on the volume
            a trailing "*" entry: unknown keys are kept by the provider;
            a trailing "#" entry: unknown keys are refused

With --layout it prints, for each section of the configuration file, the name after the option, the section
and the keys that the release reads there.

Everything comes from the installed package: its registry, its config classes. Only what the
classes do not say is written down here: which key is "the" endpoint or credential, which
providers append /v1, and that vLLM does not start without an address.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import logging
import os
import sys
import typing
import warnings
from urllib.parse import urlsplit

ENDPOINT_KEYS = [
    "base_url", "url", "api_base", "openai_compat_api_base", "endpoint", "endpoint_url", "uri", "host",
    "weaviate_cluster_url", "elasticsearch_url", "guardrails_service_url", "datasets_url", "customizer_url",
    "evaluator_url", "conn_str",
]
CREDENTIAL_KEYS = [
    "api_key", "api_token", "token", "password", "weaviate_api_key", "elasticsearch_api_key",
    "aws_bedrock_bearer_token", "openai_api_key", "access_token", "aws_secret_access_key",
]
# What a provider needs of another API is sometimes named by that API's registry half.
PUBLIC_API = {
    "datasets": "datasetio", "tool_groups": "tool_runtime", "models": "inference", "shields": "safety",
    "vector_dbs": "vector_io", "vector_stores": "vector_io", "scoring_functions": "scoring", "benchmarks": "eval",
}
# Served by the stack itself, whatever the file says.
BUILT_IN = {"conversations", "prompts", "connectors", "inspect", "providers", "admin"}


def core_module(name):
    """A module of the server's core, which was once called distribution."""
    for package in ("ogx", "llama_stack"):
        if importlib.util.find_spec(package):
            break
    else:
        raise SystemExit("neither ogx nor llama_stack is installed in this interpreter")
    core = "core" if importlib.util.find_spec(f"{package}.core") else "distribution"
    return importlib.import_module(f"{package}.{core}.{name}")


def registry():
    return core_module("distribution").get_provider_registry()


def model_of(annotation):
    """The model class in an annotation such as `Model | None`."""
    for candidate in (annotation, *typing.get_args(annotation)):
        if hasattr(candidate, "model_fields"):
            return candidate
    return None


def layout():
    """Pairs of a section and its keys. A section that the release does not have is left out."""
    types = core_module("datatypes")
    top = getattr(types, "StackConfig", None) or types.StackRunConfig

    def keys_at(*path):
        model = top
        for key in path:
            info = model.model_fields.get(key)
            model = info and model_of(info.annotation)
            if not model:
                return []
        return sorted(model.model_fields)

    sections = {
        "top": (), "registered_resources": ("registered_resources",), "server": ("server",),
        "stores": ("storage", "stores"), "vector_stores": ("vector_stores",),
    }
    return [(section, keys) for section, path in sections.items() if (keys := keys_at(*path))]


def config_class(path):
    """The config class, or None when something it imports is missing."""
    module, name = path.rsplit(".", 1)
    try:
        return getattr(importlib.import_module(module), name)
    except Exception:
        return None


def source_fields(path):
    """Names and requiredness read from the source of a class that cannot be imported."""
    module, name = path.rsplit(".", 1)
    files = []
    while module:
        try:
            spec = importlib.util.find_spec(module)
        except Exception:
            spec = None
        if spec and spec.origin:
            files = [spec.origin]
            for folder in spec.submodule_search_locations or []:
                files += sorted(os.path.join(folder, f) for f in os.listdir(folder) if f.endswith(".py"))
            break
        module = module.rpartition(".")[0]
    for file in files:
        for node in ast.parse(open(file).read()).body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return {s.target.id: s.value is None for s in node.body
                        if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)}
    return {}


def store_kind(annotation):
    """kv, sql or None: what kind of store, if any, a field takes."""
    text = str(annotation)
    if "KVStoreReference" in text or "KVStoreConfig" in text:
        return "kv"
    if any(name in text for name in ("SqlStoreReference", "InferenceStoreReference", "ResponsesStoreReference", "SqlStoreConfig")):
        return "sql"
    return None


def nested_stores(annotation):
    """`a:kv+b:sql` for a model made of stores only."""
    if not (inspect.isclass(annotation) and hasattr(annotation, "model_fields")):
        return None
    kinds = {name: store_kind(info.annotation) for name, info in annotation.model_fields.items()}
    if kinds and all(kinds.values()):
        return "+".join(f"{name}:{kind}" for name, kind in kinds.items())
    return None


def describe_fields(cls, api, type_):
    keys = {}
    for name, info in cls.model_fields.items():
        alias = info.validation_alias if isinstance(info.validation_alias, str) else info.alias
        keys[alias or name] = info
    marked = []
    for key in sorted(keys):
        info = keys[key]
        required, mark = info.is_required() or (type_ == "remote::vllm" and key in ("url", "base_url")), ""
        nullable = info.is_required() and type(None) in typing.get_args(info.annotation)
        kind = store_kind(info.annotation)
        nested = nested_stores(info.annotation)
        if required:
            mark += "?" if nullable and not kind else "!"
        if getattr(info, "deprecated", None):
            mark += "~"
        blocks = kind and "Reference" not in str(info.annotation)
        if nested:
            mark += "=" + nested
        # A vector store forgets its stores without one; a block's default lies outside the volume.
        elif kind and (required or blocks or (kind == "kv" and api == "vector_io")):
            mark += "=" + kind
        elif key == "sqlite_db_path" or (required and key == "db_path"):
            mark += "=file"
        elif required and key in ("storage_dir", "path") and type_.startswith("inline::"):
            mark += "=dir"
        marked.append(key + mark)
    extra = (getattr(cls, "model_config", {}) or {}).get("extra")
    marked += {"allow": ["*"], "forbid": ["#"]}.get(extra, [])
    return keys, marked


def endpoint_column(keys, type_):
    if not type_.startswith("remote::"):
        return "-"
    key = next((k for k in ENDPOINT_KEYS if k in keys), None)
    if key is None:
        return "-"
    info = keys[key]
    annotation = str(getattr(info, "annotation", ""))
    kind = {"host": "host", "conn_str": "dsn"}.get(key) or ("http" if "HttpUrl" in annotation else "url")
    default = ""
    if info is not None and not info.is_required():
        default = str(info.get_default(call_default_factory=True) or "")
    path = urlsplit(default).path.rstrip("/") if "://" in default else None
    name = type_.split("::", 1)[1]
    if name == "vllm" or path == "/v1":
        tail = ":/v1"
    elif name == "tgi":
        tail = ":/v1" if key == "base_url" else ":bare"
    elif name == "ollama":
        tail = ":bare"
    else:
        tail = ""
    return f"{key}:{kind}{tail}"


def line(api, type_, spec):
    keys, marked = {}, []
    if spec.config_class:
        cls = config_class(spec.config_class)
        if cls is not None:
            keys, marked = describe_fields(cls, api, type_)
        else:
            found = source_fields(spec.config_class)
            keys = dict.fromkeys(found)
            marked = [name + ("!" if required else "") for name, required in sorted(found.items())]
    needs = []
    for needed in getattr(spec, "api_dependencies", []):
        name = PUBLIC_API.get(needed.value, needed.value)
        if name not in BUILT_IN and name != api and name not in needs:
            needs.append(name)
    credential = next((k for k in CREDENTIAL_KEYS if k in keys), "-")
    return " ".join([
        api, type_, endpoint_column(keys, type_), credential, ",".join(needs) or "-",
        getattr(spec, "toolgroup_id", None) or "-", ",".join(marked) or "-",
    ])


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    out = os.dup(1)
    os.dup2(2, 1)  # some releases print while they are imported
    if sys.argv[1:2] == ["--layout"]:
        lines = [f"{sys.argv[2]} {section} {','.join(keys)}" for section, keys in layout()]
    else:
        lines = sorted(line(api.value, type_, spec) for api, specs in registry().items()
                       for type_, spec in specs.items() if not getattr(spec, "deprecation_error", None))
    with os.fdopen(out, "w") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
