#!/usr/bin/env bash
# Builds the wheel, installs it alone in a fresh environment, links it, and runs the stock harness on the sample.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet build
"$folder/venv/bin/python" -m build --quiet --wheel --outdir "$folder/dist" .
"$folder/venv/bin/pip" install --quiet "$folder"/dist/ragtasks-*.whl

# Away from the checkout, so that nothing but the wheel can be imported.
cd "$folder"
"$folder/venv/bin/ragtasks" link
"$folder/venv/bin/lm_eval" ls tasks > tasks.txt
for file in $(find "$folder/venv" -path '*task_yamls*' -name '[!_]*.yaml'); do
  name=$(basename "$file" .yaml)
  grep -q "|$name *|" tasks.txt || { echo "lm_eval ls tasks does not list $name" >&2; exit 1; }
done
"$folder/venv/bin/lm_eval" --model dummy --tasks mtrag_full_rag --metadata '{"data": "sample"}' | tee table.txt
for domain in clapnq fiqa govt cloud; do
  grep -q "mtrag_full_rag_$domain" table.txt || { echo "no scores for $domain" >&2; exit 1; }
done
grep -q '|sample|' table.txt || { echo "the table does not say that the scores are the sample's" >&2; exit 1; }
"$folder/venv/bin/ragtasks" unlink
echo "the wheel works with the stock lm_eval"
