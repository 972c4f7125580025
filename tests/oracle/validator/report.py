"""The findings about one file."""

from __future__ import annotations


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
