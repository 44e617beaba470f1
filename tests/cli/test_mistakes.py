"""Common mistakes at the command line: each is a single error before anything runs, with the next step."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests._commands import run_command

ROW = '{"question": "Who?", "answer": "Ada.", "contexts": ["Ada wrote it."]}\n'
FILES = {
    "rows.jsonl": ROW,
    "rows.json": f"[\n{ROW}",
    "rows.csv": "question,answer\nWho?,Ada,and more\n",
    "broken.jsonl": '{"question": "Who?", "answer": "Ada."\n',
    "evaluation.yaml": "benchmark: mtrag\nmodel: {name: ragtasks-extractive}\ndata: sample\n",
    "qrels.txt": "q1 0 p1 1\n",
    "run.trec": "q1 Q0 p1 1 2.0 mine\nq1 Q0 p2 2 1.0 mine\n",
    "twice.yaml": "model: ragtasks-oracle\ndata: sample\ndata: other\n",
    "answers.yaml": "benchmark: mtrag\ndata: sample\nanswers: empty\n",
    "retriever.yaml": "benchmark: mtrag\ndata: sample\nretriever: {line: bm25, queries: [last_turn, rewirte]}\n",
    "samples.jsonl": '{"doc_id": 0, "doc": {}, "resps": [], "filtered_resps": []}\n',
    "typo.jsonl": ROW + ROW.replace("answer", "anwser"),
    "nothing.jsonl": "",
    "nothing.yaml": "",
    "printed.jsonl": ROW.replace('"', "'"),
    "tab.yaml": "model:\n\tname: m\n",
    "keys.yaml": "benchmark: mtrag\nmodel: {name: ragtasks-extractive}\nencoder: none\n",
}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (tmp_path / "empty").mkdir()
    for name, content in FILES.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(ROW.encode() * 99)[:-9])
    (tmp_path / "wide.jsonl").write_bytes(ROW.encode("utf-16"))
    (tmp_path / "pretty.jsonl").write_text(f"{json.dumps(json.loads(ROW), indent=1)}\n" * 2, encoding="utf-8")
    (tmp_path / "old.jsonl").write_bytes(ROW.replace("\n", "\r").encode() * 2)
    (tmp_path / "table.csv").write_bytes("question;answer\nWer?;Käse\n".encode("latin-1"))
    (tmp_path / "latin.jsonl").write_bytes(ROW.replace("Ada.", "Käse").encode("latin-1"))
    (tmp_path / "encoded.txt").write_bytes("model: Käse\n".encode("latin-1"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("score row.jsonl", ["no such file", "did you mean rows.jsonl"]),
        ("score results/mine", ["no folder results"]),
        ("score localhost:8000/v1", ["no scheme", "write http://localhost:8000/v1"]),
        ("score . --output again", ["answers without the name of their benchmark", "add --benchmark and --setting"]),
        ("score rows.jsonl --judge mtrag-un-offical,base_url=http://127.0.0.1:9", ["did you mean mtrag-un-official?"]),
        ("judges calibrate labels.csv --judge openai/gpt-4o-mini", ["labels.csv"]),
        ("judges passages none.jsonl --judge openai/gpt-4o-mini --output q.txt", ["none.jsonl"]),
        ("check sampels.jsonl --task C --data sample", ["did you mean samples.jsonl"]),
        ("check empty --task C --data sample", ["found: Is a directory next step: name a file in it"]),
        ("eval nothing.yaml", ["the file names no system", "add one of model"]),
        ("gate rows.jsonl --baseline rows.jsonl --margin ans_acc=0.1", ["next step: name a folder of results"]),
        ("retrieve --data sample --retriever dense:minlm", ["did you mean 'minilm'?"]),
        (
            "run --model ragtasks-oracle --tasks mtrag_reference --data sample --encoder none --metric rl_mtb_rw",
            ["unknown added metric 'rl_mtb_rw': did you mean 'rl_mtb_raw'"],
        ),
        ("score empty", ["a folder with nothing", "name a file: ragtasks score FILE"]),
        ("score empty --output again", ["a folder with nothing", "name a file: ragtasks score FILE"]),
        ("score --traces rows.jsonl", ["no option --traces", "ragtasks score FILE"]),
        ("score --endpoint=http://localhost:1", ["no option --endpoint", "ragtasks score ADDRESS"]),
        ("leaderboard empty", ["no command leaderboard", "ragtasks results list results --leaderboard page.html"]),
        (
            "results leaderboard empty",
            ["no command results leaderboard", "ragtasks results list results --leaderboard"],
        ),
        ("results diff a b", ["no command results diff", "ragtasks compare"]),
        ("tasks unlink", ["no command tasks unlink", "ragtasks tasks link --remove"]),
        ("arena copy a b", ["no command arena copy", "ragtasks arena ratings"]),
        ("review export a", ["no command review export", "ragtasks review results"]),
        ("data cache prune", ["no command data cache prune", "ragtasks data cache --remove"]),
        ("gate a --alpha 0.1", ["no option --alpha", "`gate: {alpha: VALUE}`", "--config"]),
        ("gate --power --baseline rows.json5/x.json", ["no folder rows.json5", "--save-baseline rows.json5/x.json"]),
        ("gate --power --baseline row.json", ["no such file", "did you mean rows.json"]),
        ("run --model nosuchmodel --tasks mtrag", ["ragtasks run --help-all", "--model_args pretrained=nosuchmodel"]),
        ("run --model ragtasks-orcale --tasks mtrag", ["did you mean 'ragtasks-oracle'"]),
        (
            "retrieve --data sample --retriever hybrid(bm25,dense:minilm",
            ["expected every bracket and quote closed", "Next step: write it such as bm25"],
        ),
        ("submit --task A --run official --data sample --output rows.jsonl", ["rows.jsonl exists", "--force"]),
        ("check samples.jsonl", ["samples of lm_eval", "ragtasks submit --task B --results"]),
        ("compare a.trec b.trec --qrels qrels.txt", ["no option --qrels", "ragtasks evaluate-run"]),
        (
            "run --model openai/gpt-4o-mini --tasks mtrag",
            ["--model openai-chat-completions --model_args model=gpt-4o-mini"],
        ),
        ("run --model openai-chat-completions --tasks mtrag --data sample", ["add --model_args model=NAME"]),
        (
            "run --model local-chat-completions --tasks mtrag --data sample --model_args model=m,api_key_env=KEY",
            ["export OPENAI_API_KEY"],
        ),
        (
            "run --for-submission C --tasks mtrag_reference --output_path out --model ragtasks-oracle --data sample",
            ["Next step: --tasks mtrag_full_rag"],
        ),
        ("score rows.jsonl --keys frage=question", ["write question=frage"]),
        ("score printed.jsonl", ["objects as Python prints them", "json.dumps"]),
        ("eval tab.yaml", ["line 2: not YAML: a tab begins the line"]),
        ("init --model m --server localhost:8000/v1", ["Next step: write http://localhost:8000/v1"]),
        ("init --endpoint localhost:8000", ["Next step: write http://localhost:8000"]),
        ("score typo.jsonl", ["line 2 (row-2)", "found no `answer` but `anwser`"]),
        ("score nothing.jsonl", ["write the file again: it is empty"]),
        ("score table.csv", ["expected text in UTF-8", "CSV UTF-8"]),
        (
            "score rows.jsonl --benchmark mtrag --setting full_rag --data sample",
            ["leave --benchmark out for rows of your own: `ragtasks score rows.jsonl`"],
        ),
        ("report", ["report: no results in", "ragtasks report FOLDER"]),
        ("help", ["Next step: ragtasks --help"]),
        ("run mtrag_reference --model ragtasks-oracle", ["follows no option", "--tasks mtrag_reference"]),
        ("score rows.jsonl --metadata idk", ["--metadata 'idk': expected KEY=VALUE, such as idk=ngrams"]),
        ("data fetch mtrag --from nowhere", ["--from nowhere: no such file or folder"]),
        (
            "retrieve --data sample --retriever bm52",
            ["retriever: 'bm52'; expected a known retriever, found 'bm52'; did you mean 'bm25' or 'bm25s'?"],
        ),
        ("retrieve --data sample --retriever hybrid", ["its retrievers in brackets, such as hybrid(bm25,dense"]),
        ("report rows.jsonl", ["another file", "ragtasks score rows.jsonl"]),
        ("compare rows.jsonl rows.jsonl", ["neither results nor a run", "ragtasks score rows.jsonl"]),
        ("score evaluation.yaml", ["an evaluation file", "ragtasks eval evaluation.yaml"]),
        ("score run.trec", ["a run", "ragtasks evaluate-run RUN --qrels QRELS"]),
        ("eval evaluation.yaml --data sample", ["no option --data", "--set data=VALUE"]),
        ("eval evaluation.yaml --limit 3", ["no option --limit", "--set model.limit=VALUE"]),
        ("evaluate-run nowhere.trec --qrels qrels.txt", ["No such file or directory"]),
        ("retrieve --data sample", ["Missing option '--retriever'. bm25, dense:minilm"]),
        ("doctor --model vlm", ["no such model type", "'vllm'"]),
        (
            "run --model ragtasks-oracle --tasks mtrag_reference --data sample --encoder minillm",
            ["found 'minillm'. Next step: did you mean 'minilm'?"],
        ),
        ("score rows.json", ["found: broken JSON (Expecting ',' delimiter", "write the file again"]),
        ("score cut.jsonl.gz", ["found 'Truncated compressed stream'", "the file is damaged"]),
        ("score wide.jsonl", ["found: text in UTF-16", "save it in UTF-8"]),
        ("score pretty.jsonl", ["found: several objects over several lines", "jq -c . FILE"]),
        ("score pretty.jsonl --benchmark mtrag --data sample", ["found: several objects over several lines"]),
        ("score old.jsonl", ["found: line ends that are carriage returns"]),
        ("score latin.jsonl", ["line 1: expected text in UTF-8, found no UTF-8"]),
        ("score rows.csv", ["row 1: expected a row, found 'more cells than the header has columns'"]),
        ("score broken.jsonl", ["broken.jsonl: 1 error", "line 1: expected one JSON object"]),
        ("score rows.jsonl --setting full", ["'full' is not one of 'reference'"]),
        ("score rows.jsonl --ouput x", ["No such option: --ouput", "--output"]),
        ("score rows.jsonl --max-implausible 1", ["--metadata max_implausible=VALUE"]),
        ("compare a b --judge=j --idk=ngrams", ["--metadata idk=VALUE"]),
        ("compare a b --until-decided", ["--judge"]),
        ("score rows.jsonl --judge gpt-4o-mini", ["write openai/gpt-4o-mini for a model of OpenAI"]),
        ("score rows.jsonl --judge=", ["no endpoint is given", "openai/NAME"]),
        ("report empty", ["a results file of an evaluation", "`ragtasks results list` lists results"]),
        ("compare a b", ["no file or folder 'a', and no run of that name"]),
        ("compare empty nothere", ["no file or folder 'nothere'"]),
        ("compare empty rwos.jsonl", ["no file or folder 'rwos.jsonl'", "did you mean rows.jsonl"]),
        ("results show nothere", ["no file or folder 'nothere'"]),
        ("eval evaluation.yml", ["no such file", "did you mean evaluation.yaml"]),
        ("eval rows.jsonl", ["expected an evaluation in YAML", "ragtasks score rows.jsonl"]),
        ("eval keys.yaml", ["line 3: encoder: no such key; it is an option and belongs under `options`"]),
        ("eval evaluation.yaml --set model.generation={max_gen_toks:80}", ["write max_gen_toks: 80, with a space"]),
        ("eval evaluation.yaml --set settings=[reference_rga]", ["settings.0: expected", "'reference_rag'"]),
        ("eval evaluation.yaml --set benchmark=[mtrag,inscit]", ["benchmark: expected a text, found a list"]),
        ("eval evaluation.yaml --set model=[a]", ["model: expected keys with values, found a list"]),
        ("eval evaluation.yaml --set model.limit=many", ["model.limit: expected a whole number, found a text"]),
        (
            "eval evaluation.yaml --set model.name=ragtasks-orcale",
            ["model.name: no such baseline", "'ragtasks-oracle'"],
        ),
        ("eval evaluation.yaml --set output=rows.jsonl", ["1 problem", "rows.jsonl is a file"]),
        ("eval evaluation.yaml --set report.html=empty", ["report.html: empty is a folder"]),
        ("eval twice.yaml", ["line 3: data is already in line 2"]),
        ("eval encoded.txt", ["encoded.txt: not UTF-8 text"]),
        ("eval empty", ["empty: cannot be read (Is a directory)"]),
        ("eval answers.yaml", ["answers empty: a folder"]),
        ("eval evaluation.yaml --dry-run --set benchmark=mtrg", ["unknown benchmark 'mtrg': did you mean 'mtrag'"]),
        ("eval evaluation.yaml --dry-run --set model.batch_size=many", ["a whole number of 1 or more, or `auto`"]),
        ("eval evaluation.yaml --dry-run --set model.kind=vlm", ["no such model type", "'vllm'"]),
        ("eval evaluation.yaml --dry-run --set model.server=localhost:1", ["model.server: must begin with http://"]),
        ("eval evaluation.yaml --dry-run --set model.generation.temprature=1", ["did you mean 'temperature'?"]),
        ("eval evaluation.yaml --dry-run --set model.generation.top_p=x", ["top_p: expected a number, found 'x'"]),
        ("eval evaluation.yaml --dry-run --set options.retriever=bm26", ["did you mean 'bm25'"]),
        ("eval evaluation.yaml --dry-run --set options.queries=last_trun", ["did you mean 'last_turn'"]),
        ("eval evaluation.yaml --dry-run --set options.anchors=40", ["options.anchors needs judges"]),
        ("eval evaluation.yaml --dry-run --set options.prompts=our", ["options.prompts: expected 'ours'"]),
        ("eval evaluation.yaml --dry-run --set report.htlm=x", ["report.htlm: no such key; did you mean 'html'?"]),
        ("eval evaluation.yaml --dry-run --set report.html=3", ["report.html: expected a path"]),
        ("eval evaluation.yaml --dry-run --set arena.serve.port=3", ["arena: no such key", "known: answers"]),
        ("eval evaluation.yaml --dry-run --set gate.margins.rb_algo=0.1", ["did you mean 'rb_alg'"]),
        (
            "eval evaluation.yaml --dry-run --set gate.slices=[domian]",
            ["unknown slice 'domian': did you mean 'domain'"],
        ),
        ("eval evaluation.yaml --dry-run --set gate.may_differ=[prompt]", ["did you mean 'prompts'"]),
        ("eval evaluation.yaml --dry-run --set judges=gpt-4o", ["judges: write openai/gpt-4o for a model of OpenAI"]),
        (
            "eval evaluation.yaml --dry-run --set data=3",
            ["evaluation.yaml: line 3: data: expected a text, found a num"],
        ),
        ("eval retriever.yaml --dry-run", ["query form 'rewirte': did you mean 'rewrite'"]),
        ("eval retriever.yaml --dry-run --set retriever.queries=[llm_rewrite]", ["needs a model: --rewriter"]),
        ("eval retriever.yaml --dry-run --set retriever.queries=[last_turn,last_turn]", ["last_turn is listed twice"]),
        (
            "eval retriever.yaml --dry-run --set retriever.queries=[rewrite] --set retriever.corpora.clapnk=x",
            ["no domain 'clapnk'; did you mean 'clapnq'?"],
        ),
        (
            "eval evaluation.yaml --set model.name=gpt-4o --set options.encoder=none --no-probe",
            ["has no weights to load", "openai/gpt-4o"],
        ),
        (
            "eval evaluation.yaml --set model.name=local-completions --set options.encoder=none --no-probe",
            ["a model type of lm_eval", "`kind: local-completions`"],
        ),
        (
            "eval evaluation.yaml --set model.name=m --set model.arguments.base_url=http://localhost:1",
            ["model: arguments.base_url: use `server` for the address"],
        ),
    ],
)
def test_a_mistake_is_one_error_with_the_next_step(line: str, words: list[str]) -> None:
    done = run_command(*line.split())
    assert done.status in (1, 2)
    text = " ".join(done.err.replace("│", " ").split())
    assert [word for word in words if word not in text] == [], done.err
    assert "Value error" not in text
    assert "is ready" not in text
    assert "Traceback" not in text
    assert done.err.count("ragtasks: ") <= 1
    assert not Path("results").exists()


def test_rows_with_other_questions_do_not_compare(tmp_path: Path) -> None:
    (tmp_path / "other.jsonl").write_text(ROW.replace("Who?", "When?"), encoding="utf-8")
    for name in ("rows", "other"):
        assert run_command("score", f"{name}.jsonl", "--encoder", "none", "--output", f"scored/{name}").status == 0
    done = run_command("compare", "scored/rows", "scored/other")
    assert done.status == 1
    assert "rows of other and rows differ in their questions" in done.err
