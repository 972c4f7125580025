"""YAML documents and pydantic models."""

from __future__ import annotations


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


def is_empty(v) -> bool:
    return v is None or v == "" or v == [] or v == {}


def walk_ignored(obj, raw, path, out):
    """Collect the keys of the document that the validated object does not have."""
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
