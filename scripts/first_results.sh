#!/usr/bin/env bash
# Measure the ways in of README from an empty environment to a first result: seconds to install and to the result,
# megabytes, and load of the machine. Each install is a fresh virtual environment without a package cache; ways with the
# same extras share an install. Prints a Markdown table. After the install everything is offline: the sample, and a
# scripted server instead of a model.
# usage: first_results.sh [FOLDER]     FOLDER: folder for all files; default: a temporary folder
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
cd "$folder"
export HOME=$folder RAGTASKS_RUNS=$folder/runs HF_HUB_OFFLINE=1
busy() { awk -v n="$(getconf _NPROCESSORS_ONLN)" '{printf "%s on %d cores", $1, n}' /proc/loadavg; }

install() {  # EXTRAS: a fresh environment, its seconds and megabytes
  rm -rf venv
  "${PYTHON:-python3}" -m venv venv
  local begin=$SECONDS
  venv/bin/pip install --quiet --disable-pip-version-check --no-cache-dir "$root${1:+[$1]}" >&2
  seconds=$((SECONDS - begin)) megabytes=$(du -sm venv/lib/python*/site-packages | cut -f1)
  export PATH=$folder/venv/bin:$PATH
}

way() {  # NAME EXTRAS: runs the commands of standard input, one a line, and prints the row
  local begin=$SECONDS commands=0
  while IFS= read -r command; do
    commands=$((commands + 1))
    bash -c "$command" < /dev/null >> "$folder/log.txt" 2>&1 || { echo "failed: $command" >&2; tail -20 "$folder/log.txt" >&2; exit 1; }
  done
  echo "| $1 | \`${2:-.}\` | $seconds | $megabytes | $commands | $((SECONDS - begin)) | $(busy) |"
}

echo "| way | extra | install, s | MB | commands | to the result, s | load |"
echo "| --- | --- | ---: | ---: | ---: | ---: | --- |"

install ""
cat > rows.jsonl <<ROWS
{"question": "How long may I keep a book?", "answer": "Three weeks.", "contexts": ["Books are lent for three weeks."], "reference": "Three weeks."}
{"question": "When do you open on Sundays?", "answer": "I don't know.", "contexts": ["The library opens at nine on weekdays."]}
{"question": "What does a lost card cost?", "answer": "A new card costs five euros.", "contexts": ["A lost card is replaced for five euros."]}
{"question": "Who may use the workshop?", "answer": "Members.", "contexts": ["The workshop is open to members."]}
{"question": "Is there a laser cutter?", "answer": "Yes, on the second floor.", "contexts": []}
ROWS
way "five rows of your own" "" <<'WAY'
ragtasks score rows.jsonl --output rows
WAY
cp "$root/examples/my_rag_system.py" .
way "answers of your own system" "" <<'WAY'
ragtasks tasks export --benchmark mtrag --setting full_rag --no-contexts --data sample --output tasks.jsonl
python my_rag_system.py tasks.jsonl > answers.jsonl
ragtasks score answers.jsonl --benchmark mtrag --setting full_rag --data sample --encoder none --metadata max_implausible=1 --output answers
WAY
way "gate: the same system, not worse" "" <<'WAY'
ragtasks gate answers --baseline answers --margin ans_acc=0.1 --margin rouge_l=0.1
WAY

install retrieval
way "a retriever" retrieval <<'WAY'
ragtasks init --retriever bm25 --data sample --output retriever.yaml
ragtasks eval retriever.yaml --set 'retriever.queries=[last_turn,rewrite]'
WAY

install api
python "$root/scripts/judge_demo_server.py" --port 0 > address.txt &
server=$!
trap 'kill $server' EXIT
until [ -s address.txt ]; do sleep 0.2; done
address=$(grep -o 'http://[^ ]*' address.txt | head -1)
way "a model behind a server" api <<WAY
ragtasks init --model demo --server ${address%/v1}/v1 --data sample --output model.yaml
ragtasks eval model.yaml --set options.encoder=none --set options.max_implausible=1
WAY
