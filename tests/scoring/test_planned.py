"""Requests to judges counted in advance: each prompt, each reply, and each repeat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import Benchmark
from ragtasks.config import EvaluationConfig, config_from_options
from ragtasks.errors import ConfigurationError
from ragtasks.judges import Question, write_anchors
from ragtasks.records import Answerability, IdkVerdict, Response, Setting
from ragtasks.results import GivenAnswer
from ragtasks.scoring import Folders, estimated_tokens, token_counter, tokens_of_text
from ragtasks.scoring._anchors import built_in_anchors
from ragtasks.scoring.planning import (
    JudgedAnswers,
    JudgingPlan,
    SettingPlan,
    _questions,
    judging_of,
    judging_plan,
    scores_note,
)
from ragtasks.suites import suite_named
from tests._messages import raises
from tests.scoring.test_system import answers_of

Judged = tuple[Response, IdkVerdict | None]
JUDGE = {"model": "j", "base_url": "http://127.0.0.1:9"}


def characters(messages: list[dict[str, str]]) -> int:
    """Count characters, and ten per message; refuse texts that are never sent to a model."""
    assert all(message.keys() == {"role", "content"} and message["role"] == "user" for message in messages)
    return sum(10 + len(message["content"]) for message in messages)


def config_of(**options: Any) -> EvaluationConfig:
    return config_from_options({"data": "sample", "encoder": "none", "judges": [JUDGE], **options})


def group(sample: Benchmark, *answers: Judged, **options: Any) -> JudgedAnswers:
    return JudgedAnswers(suite_named("mtrag"), sample, config_of(**options), answers)


def answer(sample: Benchmark, text: str = "One. And two.", verdict: IdkVerdict = IdkVerdict.NO) -> Judged:
    task = next(task for task in sample.tasks if task.answerability is Answerability.ANSWERABLE)
    return Response(task, task.references, text), verdict


def planned(*groups: JudgedAnswers) -> JudgingPlan:
    return judging_plan(groups, characters, lambda *_: None)


def test_each_prompt_counts_as_sent_and_each_reply_without_its_frame(sample: Benchmark) -> None:
    item = answer(sample)
    found = [
        pair
        for rubric in suite_named("mtrag").rubrics()
        for pair in _questions(rubric.open(item[0]), ["One.", "And two."])
    ]
    plan = planned(group(sample, item))
    assert plan.n_calls == len(found) == 4
    assert plan.tokens == sum(10 + len(question.text) for question, _ in found)
    assert plan.reply_tokens == sum(len(reply) for _, reply in found)
    two = planned(group(sample, item, item), group(sample, item))
    assert (two.n_calls, two.tokens, two.reply_tokens) == (12, 3 * plan.tokens, 3 * plan.reply_tokens)
    assert planned() == JudgingPlan(0, 0, 0)


def test_an_answer_without_statements_has_no_second_step(sample: Benchmark) -> None:
    refusal = answer(sample, "I do not know.", IdkVerdict.YES)
    assert planned(group(sample, refusal)).n_calls == 3
    assert planned(group(sample, refusal, skip_settled=True)).n_calls == 1, "whether it refuses; the rest is settled"
    assert planned(group(sample, answer(sample), skip_settled=True)).n_calls == 4


def test_more_statements_make_a_longer_second_step_and_more_labels(sample: Benchmark) -> None:
    short, long = (planned(group(sample, answer(sample, "So it is. " * n))) for n in (1, 3))
    assert short.n_calls == long.n_calls
    assert long.tokens > short.tokens
    assert long.reply_tokens > short.reply_tokens


@pytest.mark.parametrize(("repeats", "share", "times"), [(1, 1.0, 1.0), (3, 1.0, 3.0), (3, 0.25, 1.5), (2, 0.5, 1.5)])
def test_each_repeat_counts_by_its_share(sample: Benchmark, repeats: int, share: float, times: float) -> None:
    once = planned(group(sample, answer(sample)))
    more = planned(group(sample, answer(sample), repeats=repeats, repeat_share=share))
    assert more == JudgingPlan(*(math.ceil(times * n) for n in (once.n_calls, once.tokens, once.reply_tokens)))


def test_anchors_count_as_further_answers(sample: Benchmark, tmp_path: Path) -> None:
    items = [answer(sample)] * 4
    once = planned(group(sample, *items))
    assert planned(group(sample, *items, anchors=40)).n_calls == 11 * once.n_calls
    file = tmp_path / "anchors.jsonl"
    write_anchors(file, built_in_anchors(40, tmp_path))
    assert planned(group(sample, *items, anchors=str(file))) == planned(group(sample, *items, anchors=40))
    assert planned(group(sample, anchors=40)) == JudgingPlan(0, 0, 0)


def test_progress_counts_every_answer(sample: Benchmark) -> None:
    calls: list[tuple[int, int | None]] = []

    def progress(_note: str, done: int, total: int | None) -> None:
        calls.append((done, total))

    judging_plan([group(sample, answer(sample)), group(sample, *[answer(sample)] * 2)], characters, progress)
    assert calls == [(1, 3), (2, 3), (3, 3)]


def replies(sample: Benchmark, rubric: str) -> list[tuple[Question, str]]:
    (chosen,) = (item for item in suite_named("mtrag").rubrics() if item.name == rubric)
    return list(_questions(chosen.open(answer(sample)[0]), ["One.", "And two."]))


def test_a_planned_reply_has_the_requested_format(sample: Benchmark) -> None:
    (listed, listing), (checked, checking) = replies(sample, "rl_f")
    assert '"statements": ["One.", "And two."]' in listing
    assert '"supported": {"1": "yes", "2": "yes"}' in checking
    ((_, verdict),) = asked = replies(sample, "idk")
    assert verdict.endswith(": no")
    for question, reply in [(listed, listing), (checked, checking), *asked]:
        question.read(reply)
    ((rating, reply),) = replies(sample, "rb_llm")
    assert reply.endswith(rating.form.replace(": N", ": 7"))
    assert len(reply) > 150, "an explanation stands before a rating"


def test_the_tokens_of_a_text_exclude_those_of_its_message() -> None:
    assert tokens_of_text(characters, "four") == 4
    assert tokens_of_text(characters, "") == 0


def test_an_estimate_counts_each_message_with_its_frame() -> None:
    user, other = {"role": "user", "content": "How long?"}, {"role": "assistant", "content": "Two days."}
    assert estimated_tokens([]) == 0
    assert estimated_tokens([{"role": "user", "content": ""}]) == 4
    assert estimated_tokens([user] * 10) == pytest.approx(10 * estimated_tokens([user]), abs=5)
    assert estimated_tokens([user, other]) == pytest.approx(estimated_tokens([user]) + estimated_tokens([other]), abs=1)
    assert token_counter(None) is estimated_tokens


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("cat", 1),
        ("7", 2),
        ("1234567890", 14),
        ("?!;", 2),
        ("internationalisation", 3),
        ("the cat sat on the mat", 5),
        ("\u56f3\u66f8\u9928", 3),
        ("\u0434\u043e\u043c", 1),
        ("\u00e9\u00e9", 3),
        ("a" * 100, 14),
    ],
)
def test_each_type_of_character_has_its_weight_in_an_estimate(text: str, n: int) -> None:
    assert estimated_tokens([{"role": "user", "content": text}]) - 4 == n


def test_the_context_of_a_setting_fits_its_longest_prompt_with_its_longest_reply() -> None:
    plan = SettingPlan("x", (10, 20, 30, 40), 5)
    assert plan.context == 45
    assert [plan.quantile(share) for share in (0, 0.24, 0.25, 0.5, 0.99, 1)] == [10, 10, 20, 30, 40, 40]
    assert [plan.share_within(n) for n in (14, 15, 34, 35, 45)] == [0, 0.25, 0.5, 0.75, 1]
    empty = SettingPlan("x", (), 5)
    assert (empty.context, empty.quantile(0.5), empty.share_within(1)) == (5, 0, 1)


def saved(folders: Folders, tmp_path: Path, given: dict[str, GivenAnswer], **options: Any) -> Sequence[Any]:
    named = {"system": {"benchmark": "mtrag"}, "options": options}
    return answers_of(given, folders, tmp_path, Setting.REFERENCE, **named).evaluation.tasks


def test_saved_answers_are_checked_for_refusals_and_failed_ones_left_out(
    sample: Benchmark, folders: Folders, tmp_path: Path
) -> None:
    tasks = [task for task in sample.tasks if task.answerability is Answerability.ANSWERABLE]
    given = {
        tasks[0].task_id: GivenAnswer("It is so."),
        tasks[1].task_id: GivenAnswer("I do not know."),
        tasks[2].task_id: GivenAnswer("", no_answer="HTTP 500"),
        tasks[-1].task_id: GivenAnswer("It is so."),
    }
    calls: list[tuple[int, int | None]] = []
    found = judging_of(
        saved(folders, tmp_path, given, judges=[JUDGE]),
        characters,
        folders,
        lambda _note, done, total: calls.append((done, total)),
    )
    assert found.n_calls == 4 + 3 + 4
    assert calls == [(1, 3), (2, 3), (3, 3)]
    settled = saved(folders, tmp_path, given, judges=[JUDGE], skip_settled=True)
    assert judging_of(settled, characters, folders).n_calls == 4 + 1 + 4


def test_a_note_lists_the_scores_and_those_that_need_judges(
    sample: Benchmark, folders: Folders, tmp_path: Path
) -> None:
    given = {sample.tasks[0].task_id: GivenAnswer("It is so.")}
    note = scores_note(saved(folders, tmp_path, given))
    metrics = suite_named("mtrag").metrics
    free = [metric.name for metric in metrics if metric.is_given(judges=False, official_prompts=False)]
    judged = [metric.name for metric in metrics if metric.is_given(judges=True, official_prompts=False)]
    assert note == {
        "scores": ", ".join(free),
        "only with --judge": ", ".join(name for name in judged if name not in free),
    }
    assert scores_note(saved(folders, tmp_path, given, judges=[JUDGE])) == {"scores": ", ".join(judged)}
    assert scores_note([]) == {"scores": ""}


def test_a_missing_tokenizer_is_one_error_with_a_next_step(tmp_path: Path) -> None:
    with raises(ConfigurationError):
        token_counter(str(tmp_path / "nowhere"))
    assert token_counter(None) is estimated_tokens
