#!/usr/bin/env bash
# Make a thousand small changes to the code of a folder or module, and list the changes that no test detects.
# mutmut works in a copy under build/. Undetected changes are printed, then the counts.
# SAMPLE=60 tests 60 random changes; SEED=2 draws another sample.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$(realpath "${1:?folder with python}")
folder=${2:?folder or module of the packages, such as ragtasks/arena/ratings.py}
folder=${folder%/}
[ -e "$folder" ] || { echo "no folder or module $folder: name one, such as FOLDER=ragtasks/arena/ratings.py" >&2; exit 2; }
changed=$folder
[ -f "$folder" ] || changed=$folder/*
# The tests of a room are in the folder of the same name, or in that of the enclosing room.
tests=${3:-}
if [ -z "$tests" ]; then
  tests=tests/${folder#*/}
  until [ -d "$tests" ]; do tests=$(dirname "$tests"); done
fi

copy=build/mutants/${folder//\//-}
rm -rf "$copy"
mkdir -p "$copy"
git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from - | tar --extract --directory "$copy"
cd "$copy"
cat > setup.cfg <<CONFIG
[mutmut]
source_paths=
  ragtasks
  retrieval_cache
only_mutate=
  $changed
also_copy=
  docs
  task_yamls
  scripts
  examples
  perf
  README.md
pytest_add_cli_args=
  --numprocesses=0
  -pno:cacheprovider
pytest_add_cli_args_test_selection=
$(printf '  %s\n' $tests)
CONFIG
# A changed loop may allocate memory without end. Each process is limited to 6 GiB (in kilobytes); beyond that the
# mutant counts as killed.
ulimit -v "${MUTANT_KILOBYTES:-6291456}"
mutate() { OMP_NUM_THREADS=1 nice -n 15 "$bin/python" -m mutmut run --max-children "${CHILDREN:-1}" "$@" > run.log 2>&1; }
names=()
if [ -n "${SAMPLE:-}" ]; then
  # With a name that matches no mutant, mutmut creates the mutants, times the tests and stops before testing any mutant.
  mutate nothing || true
  readarray -t names < <("$bin/python" - "$SAMPLE" "${SEED:-1}" <<'DRAW'
import json, pathlib, random, sys

made = sorted(pathlib.Path("mutants").rglob("*.meta"))
every = [name for path in made for name in json.loads(path.read_text())["exit_code_by_key"]]
print(*random.Random(sys.argv[2]).sample(every, min(int(sys.argv[1]), len(every))), sep="\n")
DRAW
  )
fi
# mutmut prints a line for every mutant; the log keeps them in case of an error.
mutate "${names[@]}" || {
  tail -c 3000 run.log >&2
  exit 1
}
"$bin/python" -m mutmut results | sed 's/^ *//' | grep -v ': not checked$' > results.txt || true
{ grep ': survived$' results.txt || true; } | cut -d: -f1 | while read -r name; do
  echo "$name"
  "$bin/python" -m mutmut show "$name" | grep -E '^[-+] ' || true
done
# Functions that no test calls, one per line.
grep -v ': survived$' results.txt | sed 's/__mutmut_[0-9]*//' | sort | uniq -c || true
"$bin/python" -m mutmut export-cicd-stats > /dev/null
echo "$folder, by $tests${SAMPLE:+, ${#names[@]} drawn}: $(tr -d '\n' < mutants/mutmut-cicd-stats.json)"
