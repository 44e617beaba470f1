"""MTRAG-UN: facts about the real file, its leak, its sample, and the scoring of underspecified questions."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from lm_eval.api.instance import Instance

from ragtasks.benchmarks import Benchmark, benchmark_folder, build_doc, open_benchmark, retrieval_side
from ragtasks.benchmarks.download import FileStatus, adopt, verify
from ragtasks.benchmarks.mtrag._mtrag_un import DOMAINS, MTRAG_UN_SOURCE, OFFICIAL_COUNTS, RETRIEVAL, load, load_qrels
from ragtasks.config import EvaluationConfig
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.harness.models import RefuseOnEmpty
from ragtasks.metrics import NgramIdk, answerability_accuracy
from ragtasks.records import Answerability, Response, Role, Setting
from ragtasks.results import ScoredAnswer
from ragtasks.scoring import ResponseScorer
from tests._messages import raises
from tests.benchmarks.mtrag._official import official_passages

SAMPLE = benchmark_folder("mtrag_un", "sample", Path())
SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
TASK_FILE = "mtragun-human/generation_tasks/reference.jsonl"
JUDGED = (Answerability.ANSWERABLE, Answerability.PARTIAL)
LONGEST_COPY = 12  # longest common sequence of words of a reference answer and a passage


@pytest.fixture(scope="module")
def official(mtrag_root: Path) -> Benchmark:
    return load(mtrag_root)


@pytest.fixture(scope="module")
def sample() -> Benchmark:
    return load(SAMPLE)


def judgements(root: Path, domain: str) -> set[tuple[str, str, str]]:
    lines = (root / f"mtragun-human/retrieval_tasks/qrels/{domain}.tsv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "query-id\tcorpus-id\tscore"
    rows = [line.split("\t") for line in lines[1:]]
    judged = {(query_id, passage_id, grade) for query_id, passage_id, grade in rows}
    assert len(judged) == len(rows)
    return judged


def references(benchmark: Benchmark, domain: str) -> set[tuple[str, str, str]]:
    judged = [task for task in benchmark.tasks if task.domain == domain and task.answerability in JUDGED]
    return {(task.task_id, passage.passage_id, "1") for task in judged for passage in task.references}


# The official file.


def test_the_official_tasks_have_the_counted_labels(official: Benchmark) -> None:
    tasks = official.tasks
    assert (len(tasks), len({task.conversation_id for task in tasks})) == (507, 507)
    assert Counter(task.domain for task in tasks) == {"govt": 157, "clapnq": 142, "cloud": 131, "fiqa": 77}
    assert Counter(task.answerability.value for task in tasks) == OFFICIAL_COUNTS.by_answerability
    assert Counter(task.multi_turn for task in tasks) == {"Follow-up": 330, "N/A": 103, "Clarification": 74}
    assert sum(len(task.references) for task in tasks) == 1180
    assert not official.is_sample
    assert official.label == "mtrag_un"
    assert official.answerability_key == "answerability"
    assert official.revision == "cc5b1d481b391181b89f7ced860308482e785463"


@pytest.mark.parametrize(
    ("index", "facts", "n_references"),
    [
        (0, ("18ef26058d321c5d96ca3ebf8117789e<::>7", "fiqa", "ANSWERABLE", "Clarification"), 4),
        (9, ("709075ff95308941d87f8c41d96e8a88<::>1", "clapnq", "PARTIAL", "N/A"), 1),
        (-1, ("aaac235809761fe524241f5beea123b5<::>3", "govt", "UNDERSPECIFIED", "N/A"), 2),
    ],
)
def test_the_first_tenth_and_last_official_task(
    official: Benchmark, index: int, facts: tuple[str, ...], n_references: int
) -> None:
    task = official.tasks[index]
    assert (task.task_id, task.domain, task.answerability.value, task.multi_turn) == facts
    assert len(task.references) == n_references
    assert len(task.messages) == 2 * task.turn - 1
    assert (task.messages[0].role, task.messages[-1].role) == (Role.USER, Role.USER)


@pytest.mark.parametrize("domain", DOMAINS)
def test_official_judgements_are_the_references_of_answerable_and_partial_tasks(
    mtrag_root: Path, official: Benchmark, domain: str
) -> None:
    assert judgements(mtrag_root, domain) == references(official, domain)


def test_missing_passages_reveal_an_unanswerable_task(official: Benchmark) -> None:
    """The leak: among tasks whose label a refusal can match, those without passages are the unanswerable ones."""
    by_label = {label: [t for t in official.tasks if t.answerability is label] for label in Answerability}
    without = {label.value: sum(not task.references for task in tasks) for label, tasks in by_label.items() if tasks}
    assert without == {"ANSWERABLE": 0, "PARTIAL": 0, "UNANSWERABLE": 97, "UNDERSPECIFIED": 33}


def test_refusing_without_passages_is_nearly_always_right(official: Benchmark) -> None:
    contexts = official.read_contexts(Setting.REFERENCE)
    responses = []
    for task in official.tasks:
        passages = contexts.passages[task.task_id]
        doc = build_doc(official, task, Setting.REFERENCE, contexts.run, passages)
        (answer,) = RefuseOnEmpty().generate_until([Instance("generate_until", doc, (), 0)])
        responses.append(Response(task, passages, answer))
    labels = NgramIdk().detect(responses)
    found = [
        answerability_accuracy(response.task.answerability, label.verdict)
        for response, label in zip(responses, labels, strict=True)
    ]
    scored = [score.value for score in found if score.value is not None]
    assert len(scored) == 429
    assert sum(scored) >= 428  # one reference answer to a partial task is detected as a refusal


def test_its_files_are_downloaded_alone_into_the_folder_of_mtrag(mtrag_root: Path, tmp_path: Path) -> None:
    done = adopt(MTRAG_UN_SOURCE, mtrag_root, tmp_path)
    assert done.root == tmp_path / "mt-rag-benchmark"
    assert len(done.copied) == 5
    assert {state.status for state in verify(MTRAG_UN_SOURCE, tmp_path, ["tasks"])} == {FileStatus.OK}
    root = benchmark_folder("mtrag_un", None, tmp_path)
    assert len(open_benchmark("mtrag_un", root).tasks) == 507


def test_the_official_qrels_are_851_judgements_of_332_queries(mtrag_root: Path) -> None:
    qrels = [qrel for domain in DOMAINS for qrel in load_qrels(mtrag_root, domain)]
    assert (len(qrels), len({qrel.query_id for qrel in qrels})) == (851, 332)
    assert {qrel.relevance for qrel in qrels} == {1}
    assert qrels[0].query_id == "2f671f98cc9ba4051f126197b0039622<::>1"
    assert qrels[0].passage_id == "806502664_349-964-0-615"


# Every copy.


@pytest.mark.parametrize("domain", DOMAINS)
def test_its_retrieval_side_reads_its_judgements_and_mtrag_s_corpora(domain: str) -> None:
    assert retrieval_side("mtrag_un") is RETRIEVAL
    judged = {(qrel.query_id, qrel.passage_id, str(qrel.relevance)) for qrel in RETRIEVAL.load_qrels(SAMPLE, domain)}
    assert judged == judgements(SAMPLE, domain)
    mtrag = benchmark_folder("mtrag", "sample", Path())
    assert RETRIEVAL.corpus_file(SAMPLE, domain) == retrieval_side("mtrag").corpus_file(mtrag, domain)


def test_the_corpora_of_a_checkout_are_below_its_own_folder(mtrag_root: Path) -> None:
    assert RETRIEVAL.corpus_file(mtrag_root, "fiqa").is_relative_to(mtrag_root)


@pytest.mark.parametrize("read", [RETRIEVAL.load_qrels, RETRIEVAL.corpus_file])
def test_an_unknown_domain_lists_the_known_domains(read: Callable[[Path, str], object]) -> None:
    with raises(ConfigurationError):
        read(SAMPLE, "telco")


def test_missing_and_invalid_judgements_are_named_with_the_download_command(tmp_path: Path) -> None:
    with raises(BenchmarkFileError):
        load_qrels(tmp_path, "govt")
    path = tmp_path / "mtragun-human/retrieval_tasks/qrels/govt.tsv"
    path.parent.mkdir(parents=True)
    path.write_text("query-id\tcorpus-id\tscore\nc<::>1\td\t1\nc<::>1\td\thigh\n", encoding="utf-8")
    with raises(BenchmarkFileError):
        load_qrels(tmp_path, "govt")


@pytest.mark.parametrize("setting", [Setting.REFERENCE_RAG, Setting.FULL_RAG])
def test_other_settings_are_refused_with_the_harness_task_to_use(sample: Benchmark, setting: Setting) -> None:
    with raises(ConfigurationError):
        sample.read_contexts(setting)


def test_the_reference_setting_covers_every_task(sample: Benchmark) -> None:
    contexts = sample.read_contexts(Setting.REFERENCE)
    assert contexts.run == "official"
    assert contexts.passages == {task.task_id: task.references for task in sample.tasks}


def test_a_missing_file_is_named_with_the_download_command(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkFileError) as caught:
        load(tmp_path)
    text = str(caught.value)
    assert text.startswith(f"MTRAG-UN data: {tmp_path / TASK_FILE}")
    assert "ragtasks data fetch mtrag_un" in text


def test_a_broken_file_is_named_with_its_lines_and_counts(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path, dirs_exist_ok=True)
    path = tmp_path / TASK_FILE
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join([lines[0].replace("UNDERSPECIFIED", "VAGUE"), *lines[1:-1]]), encoding="utf-8")
    with pytest.raises(BenchmarkFileError) as caught:
        load(tmp_path)
    text = str(caught.value)
    assert text.startswith(f"MTRAG-UN file: {path}: 2 errors")
    assert "line 1 (sample-un-clapnq-01<::>1): expected `answerability[0]` as" in text
    assert f"file: expected {len(lines)} tasks, found {len(lines) - 2}" in text
    assert "ragtasks data fetch mtrag_un" in text


# The sample.


def test_the_sample_has_every_label_in_enough_tasks(sample: Benchmark) -> None:
    assert sample.is_sample
    assert sample.label == "mtrag_un (sample)"
    assert len(sample.tasks) >= 24
    assert len({task.conversation_id for task in sample.tasks}) >= 6
    assert {task.domain for task in sample.tasks} == set(DOMAINS)
    assert {task.answerability for task in sample.tasks} == set(Answerability)
    for domain in DOMAINS:
        counts = Counter(task.answerability for task in sample.tasks if task.domain == domain)
        assert min(counts[label] for label in set(Answerability) - {Answerability.CONVERSATIONAL}) >= 1
    assert all((task.turn == 1) == (task.multi_turn == "N/A") for task in sample.tasks)


def test_underspecified_sample_tasks_are_answered_with_a_question(sample: Benchmark) -> None:
    tasks = [task for task in sample.tasks if task.answerability is Answerability.UNDERSPECIFIED]
    assert len(tasks) >= 6
    assert all(task.target.endswith("?") for task in tasks)
    # As in the official file, some tasks have conflicting passages and some have none.
    assert {bool(task.references) for task in tasks} == {True, False}
    following = {(task.conversation_id, task.turn): task.multi_turn for task in sample.tasks}
    assert all(following[task.conversation_id, task.turn + 1] == "Clarification" for task in tasks)


def test_the_sample_leaks_like_the_official_file(sample: Benchmark) -> None:
    for task in sample.tasks:
        if task.answerability is not Answerability.UNDERSPECIFIED:
            assert bool(task.references) == (task.answerability in JUDGED)


@pytest.mark.parametrize("domain", DOMAINS)
def test_sample_references_are_judged_passages_of_the_shared_corpus(sample: Benchmark, domain: str) -> None:
    assert judgements(SAMPLE, domain) == references(sample, domain)
    corpus = {p.passage_id: p.text for p in official_passages(benchmark_folder("mtrag", "sample", Path()), domain)}
    for task in sample.tasks:
        if task.domain == domain:
            assert all(corpus[passage.passage_id] == passage.text for passage in task.references)


def test_sample_rows_have_the_keys_of_official_rows(mtrag_root: Path) -> None:
    keys = []
    for root in (SAMPLE, mtrag_root):
        lines = (root / TASK_FILE).read_text(encoding="utf-8").splitlines()
        keys.append({frozenset(json.loads(line)) for line in lines})
    assert keys[0] == keys[1]


def test_sample_answers_are_not_copied(sample: Benchmark) -> None:
    copied = []
    for task in sample.tasks:
        answer = re.findall(r"\w+", task.target.lower())
        sources = [" ".join(re.findall(r"\w+", passage.text.lower())) for passage in task.references]
        windows = [" ".join(answer[i : i + LONGEST_COPY + 1]) for i in range(len(answer) - LONGEST_COPY)]
        copied += [(task.task_id, window) for window in windows if any(window in source for source in sources)]
    assert copied == []


# Scoring.


@pytest.fixture(scope="module")
def scored(sample: Benchmark) -> dict[str, list[ScoredAnswer]]:
    """Answerability -> results of the reference answers, without a judge of clarification questions."""
    answers = [ScoredAnswer(Response(task, task.references, task.target), "reference") for task in sample.tasks]
    by_label: dict[str, list[ScoredAnswer]] = {}
    for result in ResponseScorer(sample, EvaluationConfig(data="sample")).score(answers):
        by_label.setdefault(result.task.answerability.value, []).append(result)
    return by_label


def test_coverage_counts_underspecified_tasks_without_a_clarification_verdict(
    scored: dict[str, list[ScoredAnswer]],
) -> None:
    coverage = {label: {result.scores["coverage"] for result in results} for label, results in scored.items()}
    assert coverage == {
        "ANSWERABLE": {1.0},
        "PARTIAL": {1.0},
        "UNANSWERABLE": {1.0},
        "UNDERSPECIFIED": {0.0},
        "CONVERSATIONAL": {0.0},
    }
    for result in scored["UNDERSPECIFIED"]:
        assert result.unscored["rb_alg"] == "no verdict on whether the response asks for clarification"
        assert result.scores["ans_acc"] is None


def test_the_ibm_profile_uses_the_labels_of_this_file(scored: dict[str, list[ScoredAnswer]]) -> None:
    """The official script reads only this key. Without a judge it scores 0."""
    assert {result.scores["rb_alg_ibm"] for result in scored["UNANSWERABLE"]} == {1.0}
    assert {result.scores["rb_alg_ibm"] for result in scored["UNDERSPECIFIED"]} == {0.0}
