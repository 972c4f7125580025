#!/usr/bin/env bash
# Installs the released binary: install-llsd.sh VERSION FOLDER
#
# The checksum of the archive is verified. LLSD_RELEASES replaces the address of the release, for mirrors.
set -euo pipefail

if [ $# -ne 2 ]; then
    echo "usage: install-llsd.sh VERSION FOLDER" >&2
    exit 2
fi
version=$1
folder=$2
source=${LLSD_RELEASES:-https://github.com/llsd-project/llsd/releases/download/v$version}

case "$(uname -s) $(uname -m)" in
"Linux x86_64") target=x86_64-unknown-linux-musl ;;
"Linux aarch64" | "Linux arm64") target=aarch64-unknown-linux-musl ;;
*)
    echo "llsd is released for Linux on x86_64 and aarch64, not for $(uname -s) on $(uname -m)" >&2
    exit 2
    ;;
esac

name=llsd-$version-$target
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for file in "$name.tar.gz" SHA256SUMS; do
    curl --fail --silent --show-error --location --retry 3 --output "$work/$file" "$source/$file"
done
expected=$(awk -v file="$name.tar.gz" '$2 == file || $2 == "*" file { print $1 }' "$work/SHA256SUMS")
actual=$(sha256sum "$work/$name.tar.gz" | cut -d ' ' -f 1)
if [ -z "$expected" ] || [ "$expected" != "$actual" ]; then
    echo "the checksum of $name.tar.gz is $actual, which is not the one in SHA256SUMS (${expected:-none})" >&2
    exit 2
fi
tar -xzf "$work/$name.tar.gz" -C "$work" "$name/bin/llsd"
mkdir -p "$folder"
install -m 0755 "$work/$name/bin/llsd" "$folder/llsd"
