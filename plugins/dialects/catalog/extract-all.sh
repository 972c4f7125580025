#!/usr/bin/env bash
# Rewrite every slice of the catalogue, and layouts.txt, from virtual environments that hold one release
# each.
#   extract-all.sh VENVS   where VENVS has 0.1.9 0.2.12 … 0.7.3 ogx-0.8.0 ogx-1.0.0 ogx-1.5.0
# A release without an environment keeps its slice and its layout.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
layouts=$here/layouts.txt
for slice in "$here"/{llama-stack,ogx}-*.txt; do
  name=$(basename "$slice" .txt)
  python=$1/${name#llama-stack-}/bin/python
  [ -x "$python" ] || { echo "$name: kept, no environment" >&2; continue; }
  # A folder that does not exist as home: no default may name this machine.
  extract() { (cd / && HOME=/nonexistent "$python" -I "$here/extract.py" "$@" 2>/dev/null); }
  extract >"$slice.new"
  mv "$slice.new" "$slice"
  { grep -v "^$name " "$layouts"; extract --layout "$name"; } | LC_ALL=C sort >"$layouts.new"
  mv "$layouts.new" "$layouts"
  echo "$name: $(wc -l <"$slice") providers" >&2
done
