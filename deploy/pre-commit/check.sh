#!/usr/bin/env bash
# The pre-commit hook llsd-check: validates the LlamaStackDistributions among the files that are committed.
#
# Uses $LLSD_BIN, llsd on the PATH, or the binary of the release that this checkout is.
set -euo pipefail

resources=()
for file in "$@"; do
    if grep -qE 'kind["'\'']?: *["'\'']?LlamaStackDistribution' -- "$file"; then
        resources+=("$file")
    fi
done
if [ ${#resources[@]} -eq 0 ]; then
    exit 0
fi

if [ -n "${LLSD_BIN:-}" ]; then
    llsd=$LLSD_BIN
elif command -v llsd >/dev/null; then
    llsd=llsd
else
    checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
    version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$checkout/Cargo.toml" | head -n 1)
    folder=${XDG_CACHE_HOME:-$HOME/.cache}/llsd/bin/$version
    if [ ! -x "$folder/llsd" ]; then
        "$checkout/deploy/install-llsd.sh" "$version" "$folder"
    fi
    llsd=$folder/llsd
fi
exec "$llsd" check -f "${resources[@]}"
