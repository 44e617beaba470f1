#!/usr/bin/env bash
# Run the five commands of docs/score-your-system.md in the environment of a checkout, from `pip install` to the scores.
# usage: own_system_demo.sh [FOLDER]     FOLDER: folder for all files; default: a temporary folder
# With RAGTASKS_DEMO_INSTALLED=1 the first command is left out, and the commands on the PATH are used.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$(mktemp -d)}
if [ -z "${RAGTASKS_DEMO_INSTALLED:-}" ]; then
  python3 -m venv "$folder/venv"
  export PATH="$folder/venv/bin:$PATH"
fi
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
ln -sfn "$root/examples" "$folder/examples"
cd "$folder"
sed -n '/^## Score answers to a benchmark/,/^## Export/p' "$root/docs/score-your-system.md" | sed -n '/^```$/,/^```$/p' |
  sed '1d;/^```$/,$d' | sed -e ':join' -e '/\\$/{N;s/ *\\\n */ /;b join' -e '}' | while IFS= read -r command; do
  case $command in
    pip\ *) [ -n "${RAGTASKS_DEMO_INSTALLED:-}" ] && continue; command=${command/"'."/"'$root"} ;;
  esac
  command=${command//8010/$port}
  echo "\$ $command"
  bash -c "$command" < /dev/null
done
