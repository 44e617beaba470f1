#!/usr/bin/env bash
# Three stand-in judges on this machine score the sample twice. The second time no request is sent.
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

judges='[{"model": "steady-a", "base_url": "'$address'/v1"}, {"model": "steady-b", "base_url": "'$address'/v1"},
         {"model": "flaky", "base_url": "'$address'/v1"}]'
for round in first second; do
  before=$(requests)
  RAGTASKS_RUNS="$folder/store" "$bin/ragtasks" run --model ragtasks-extractive --tasks mtrag_full_rag \
    --metadata '{"data": "sample", "judges": '"$judges"'}'
  echo "$round time: $(($(requests) - before)) requests to the judges"
done
