#!/usr/bin/env bash
# Build the wheel, install only the wheel in a fresh environment, link it, and run the stock harness on the sample.
# PYTHON: interpreter of an environment with the extra `dev`, whose build and pip are used; default: that of `make`.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-.venv/bin/python}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$PYTHON" -m build --quiet --no-isolation --wheel --outdir "$folder/dist" .
"$PYTHON" -m venv --without-pip "$folder/venv"
"$PYTHON" -m pip --python "$folder/venv/bin/python" install --quiet --no-compile "$folder"/dist/ragtasks-*.whl

# The install line of an error message adds an extra to the installed wheel, although no index contains the package.
error=$("$folder/venv/bin/ragtasks" arena serve "$folder" --database "$folder/arena.sqlite" 2>&1 || true)
extra=$(grep -o "ragtasks\[[a-z,]*\]" <<< "$error") || { echo "no install line: $error" >&2; exit 1; }
"$PYTHON" -m pip --python "$folder/venv/bin/python" install --quiet --no-compile "$extra"
"$folder/venv/bin/python" -c "import uvicorn"

# Outside of the checkout, so that only the wheel can be imported.
cd "$folder"
"$folder/venv/bin/ragtasks" tasks link
"$folder/venv/bin/lm_eval" ls tasks > tasks.txt
for file in $(find "$folder/venv" -path '*task_yamls*' -name '[!_]*.yaml'); do
  name=$(basename "$file" .yaml)
  grep -q "|$name *|" tasks.txt || { echo "lm_eval ls tasks does not list $name" >&2; exit 1; }
done
"$folder/venv/bin/lm_eval" --model dummy --tasks mtrag_full_rag --metadata '{"data": "sample"}' | tee table.txt
for domain in clapnq fiqa govt cloud; do
  grep -q "mtrag_full_rag_$domain" table.txt || { echo "no scores for $domain" >&2; exit 1; }
done
grep -q '|sample|' table.txt || { echo "the table does not label the scores as those of the sample" >&2; exit 1; }
"$folder/venv/bin/ragtasks" tasks link --remove
echo "the wheel works with the stock lm_eval"
