#!/usr/bin/env bash
# Run the two commands of README as on a new machine: a fresh clone of the last commit, an empty home, empty caches, a
# new environment, and only those variables of the caller that a package registry requires.
# usage: bare_machine.sh [run] [test]     default: both
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

git clone --quiet --no-hardlinks . "$folder/ragtasks"
mkdir "$folder/home"
kept=()
while IFS= read -r name; do kept+=("$name=${!name}"); done < <(
  compgen -e | grep -E '^(CI|LANG|LC_.*|PYTHON|SSL_CERT_.*|(PIP|REQUESTS|CURL|UV)_.*|(HTTPS?|NO|ALL)_PROXY|(https?|no|all)_proxy)$' |
    grep -vE '^PIP_(CACHE_DIR|TARGET|PREFIX|USER)$'
)
for target in "${@:-run test}"; do
  for name in $target; do
    echo "== make $name in a fresh clone, with an empty home"
    env -i PATH="$PATH" HOME="$folder/home" XDG_CACHE_HOME="$folder/home/.cache" "${kept[@]}" \
      make --no-print-directory -C "$folder/ragtasks" "$name"
  done
done
