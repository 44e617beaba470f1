#!/usr/bin/env bash
# Two stand-in judges on this machine compare the shipped baselines on the sample. The second time no request is sent.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${1:?folder with python and ragtasks}
folder=$(mktemp -d)
"$bin/python" scripts/judge_demo_server.py > "$folder/address" &
server=$!
trap 'kill $server; rm -rf "$folder"' EXIT
until [ -s "$folder/address" ]; do sleep 0.1; done
address=$(cat "$folder/address")
requests() { "$bin/python" -c "import json, urllib.request as u; print(json.load(u.urlopen('$address/'))['requests'])"; }

export RAGTASKS_RUNS="$folder/store"
for model in ragtasks-extractive ragtasks-oracle ragtasks-refuse; do
  "$bin/ragtasks" run --model "$model" --tasks mtrag_full_rag --metadata '{"data": "sample", "encoder": "none"}' \
    --output_path "$folder/results" --log_samples > /dev/null
done
for round in first second; do
  before=$(requests)
  "$bin/ragtasks" arena battle "$folder/results" --output "$folder/votes.jsonl" \
    --judge '{"model": "steady-a", "base_url": "'"$address"'/v1"}' \
    --judge '{"model": "flaky", "base_url": "'"$address"'/v1"}' > "$folder/$round.md"
  echo "$round time: $(($(requests) - before)) requests to the judges" >&2
done
cat "$folder/second.md"
cmp "$folder/first.md" "$folder/second.md"
