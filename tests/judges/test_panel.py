"""Several judges: every type of reply, and lost judges."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ragtasks.clients import CachedClient, OpenAIClient, Outcome, Reply, ReplyCache, Usage
from ragtasks.errors import ConfigurationError, JudgeError
from ragtasks.judges import Verdict, VerdictOutcome, rubrics_named
from ragtasks.judges._panel import judge
from ragtasks.judges.rubrics import RUBRICS, idk, rb_llm
from ragtasks.records import Response
from tests._messages import raises
from tests.clients._server import Action, Script, chat_server, closed_port, completion, refusal
from tests.judges._scripted import ScriptedClient, form_of, obedient, response

QUICK = {"backoff_seconds": 0.01, "longest_backoff_seconds": 0.02, "timeout_seconds": 10.0, "attempts": 4}


def many(count: int) -> list[Response]:
    return [response(f"Answer {number}.", task_id=f"c<::>{number + 1}") for number in range(count)]


def one_verdict(*text: str | Reply, max_attempts: int = 2) -> tuple[Verdict, ScriptedClient]:
    client = ScriptedClient(lambda _, n_before: text[n_before])
    verdicts = judge([response()], [rb_llm()], [client], max_attempts=max_attempts)
    return verdicts.verdict(0, "rb_llm", client.name), client


def test_a_verdict_contains_its_replies_and_prompt_hash() -> None:
    client = ScriptedClient(obedient(rating=7))
    verdict = judge([response()], [rb_llm()], [client]).verdict(0, "rb_llm", "scripted")
    assert (verdict.label, verdict.value, verdict.outcome) == ("7", 0.7, VerdictOutcome.GIVEN)
    assert (verdict.task_id, verdict.judge, verdict.reason, verdict.attempts) == ("c<::>2", "scripted", "", 1)
    assert verdict.replies[0].startswith("Two errors.\nRating ")
    assert (verdict.prompt_tokens, verdict.completion_tokens, len(verdict.prompt_hash)) == (5, 2, 64)


def test_two_steps_keep_both_replies_and_sum_their_tokens() -> None:
    (rubric,) = rubrics_named(["rl_f"])
    verdict = judge([response()], [rubric], [ScriptedClient(obedient())]).verdict(0, "rl_f", "scripted")
    assert (verdict.label, verdict.value, verdict.attempts) == ("1/2", 0.5, 1)
    assert [("statements" in reply, "supported" in reply) for reply in verdict.replies] == [
        (True, False),
        (False, True),
    ]
    assert (verdict.prompt_tokens, verdict.completion_tokens) == (10, 4)


def test_no_responses_send_no_request() -> None:
    client = ScriptedClient(obedient())
    verdicts = judge([], rubrics_named(tuple(RUBRICS.built_in)), [client])
    assert (verdicts.all(), verdicts.scores("idk"), client.asked) == ([], [], [])
    assert judge(many(2), [], [client]).all() == []


def test_a_second_attempt_is_marked_in_prompt_and_verdict() -> None:
    script = obedient(rating=6)
    client = ScriptedClient(lambda prompt, n_before: script(prompt, 0) if n_before else "It is fine. Rating: 9")
    verdict = judge([response()], [rb_llm()], [client]).verdict(0, "rb_llm", "scripted")
    assert (verdict.value, verdict.attempts, len(verdict.replies)) == (0.6, 2, 2)
    first, second = (prompt.messages[0].content for prompt in client.asked)
    assert second.startswith(first)
    assert "no verdict in the form asked for" in second
    assert form_of(first) == form_of(second)


@pytest.mark.parametrize("max_attempts", [1, 2, 4])
def test_attempts_are_limited(max_attempts: int) -> None:
    verdict, client = one_verdict(*["fine"] * 5, max_attempts=max_attempts)
    assert (verdict.outcome, verdict.value, verdict.label) == (VerdictOutcome.UNPARSABLE, None, None)
    assert (verdict.attempts, len(client.asked)) == (max_attempts, max_attempts)
    assert len({(prompt.messages, prompt.key_parts) for prompt in client.asked}) == max_attempts
    assert "no line `Rating" in verdict.reason


@pytest.mark.parametrize(
    ("reply", "outcome", "n_asked"),
    [
        (Reply(Outcome.REFUSED, reason="the model refused: no"), VerdictOutcome.REFUSED, 1),
        (Reply(Outcome.FILTERED, reason="filter"), VerdictOutcome.FILTERED, 1),
        (Reply(Outcome.TRUNCATED, reason="limit"), VerdictOutcome.TRUNCATED, 2),
        (Reply(Outcome.EMPTY, reason="no content"), VerdictOutcome.EMPTY, 2),
        (Reply(Outcome.EMPTY, reason="nothing but thinking", thinking="hm"), VerdictOutcome.THINKING_ONLY, 2),
        (Reply(Outcome.MALFORMED, reason="no choices"), VerdictOutcome.MALFORMED, 1),
        (Reply(Outcome.FAILED, reason="HTTP 500"), VerdictOutcome.FAILED, 1),
        (Reply(Outcome.ANSWERED, "Rating: 8"), VerdictOutcome.UNPARSABLE, 2),
    ],
)
def test_outcomes_without_a_verdict_are_distinguished(reply: Reply, outcome: VerdictOutcome, n_asked: int) -> None:
    verdict, client = one_verdict(reply, reply)
    assert (verdict.outcome, verdict.value, len(client.asked)) == (outcome, None, n_asked)
    assert verdict.reason
    assert verdict.reason == reply.reason or outcome is VerdictOutcome.UNPARSABLE


def test_a_second_step_has_its_own_attempts() -> None:
    script, (rubric,) = obedient(), rubrics_named(["rl_f"])
    client = ScriptedClient(lambda prompt, n_before: "hm" if n_before in (0, 2) else script(prompt, 0))
    verdict = judge([response()], [rubric], [client]).verdict(0, "rl_f", "scripted")
    assert (verdict.value, verdict.attempts, len(verdict.replies)) == (0.5, 2, 4)


def test_a_lost_judge_keeps_its_verdicts_and_the_others_continue() -> None:
    lost = ScriptedClient(obedient(rating=2), name="lost", lost_after=3)
    well = ScriptedClient(obedient(rating=8), name="well")
    verdicts = judge(many(5), [rb_llm()], [lost, well])
    outcomes = [verdicts.verdict(index, "rb_llm", "lost").outcome.value for index in range(5)]
    assert outcomes == ["given"] * 3 + ["judge lost"] * 2
    assert "does not accept the key" in verdicts.verdict(4, "rb_llm", "lost").reason
    assert [score.value for score in verdicts.scores("rb_llm")] == [0.5, 0.5, 0.5, 0.8, 0.8]


def test_a_judge_lost_between_two_steps_has_no_verdict() -> None:
    (rubric,) = rubrics_named(["rl_f"])
    clients = [ScriptedClient(obedient(), name="lost", lost_after=1), ScriptedClient(obedient(), name="well")]
    verdict = judge([response()], [rubric], clients).verdict(0, "rl_f", "lost")
    assert (verdict.outcome, len(verdict.replies)) == (VerdictOutcome.JUDGE_LOST, 1)


def test_losing_all_judges_is_an_error_with_each_reason() -> None:
    clients = [ScriptedClient(obedient(), name=name, lost_after=0) for name in ("one", "two")]
    with raises(JudgeError) as caught:
        judge(many(2), [idk()], clients)
    assert "next step" in str(caught.value)


def test_a_bug_is_no_lost_judge() -> None:
    def script(_prompt: str, _: int) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        judge(many(2), [idk()], [ScriptedClient(script), ScriptedClient(obedient(), name="other")])


@pytest.mark.parametrize("twice", ["rubrics", "judges"])
def test_names_must_differ(twice: str) -> None:
    rubrics = [idk(), idk()] if twice == "rubrics" else [idk()]
    clients = [ScriptedClient(obedient()) for _ in range(1 if twice == "rubrics" else 2)]
    with pytest.raises(ConfigurationError, match=f"{twice}: named twice"):
        judge(many(1), rubrics, clients)


def test_progress_counts_all_judges_to_the_end() -> None:
    calls: list[tuple[str, int, int | None]] = []
    clients = [ScriptedClient(obedient(), name=name) for name in ("one", "two")]
    rubrics = rubrics_named(["rb_llm", "rl_f"])
    judge(many(3), rubrics, clients, progress=lambda *news: calls.append(news))
    counts = [done for _, done, _ in calls]
    told = sorted(set(counts))  # each call reports its total before its first reply, so a count repeats
    assert (counts[0], told, counts[-1]) == (0, [*range(19)], 18)  # 2 judges x 3 responses x (1 rating + 2 steps)
    assert counts == sorted(counts)
    assert calls[-1][1:] == (18, 18)
    assert {note.partition("\t")[0] for note, _, _ in calls} == {"one, two"}
    assert re.fullmatch(r"18 requested at [\d,.]+/s  0 cached  0 failed  126 tokens", calls[-1][0].partition("\t")[2])
    assert all(total is not None and done <= total for _, done, total in calls)


def test_usage_distinguishes_requested_from_cached_replies(tmp_path: Path) -> None:
    """Twelve answers, two of them equal: the judge counts tokens, fails permanently on one, and has a price."""
    responses = [*many(11), response("Answer 0.", task_id="c<::>12")]

    def problems(prompt: str, _before: int) -> Action | None:
        return refusal(400, "cannot") if "Answer 7." in prompt else None

    calls: list[tuple[str, int, int | None]] = []
    with (
        chat_server(as_server(obedient(), problems)) as server,
        ReplyCache(tmp_path / "replies.sqlite") as cache,
    ):
        client = CachedClient(OpenAIClient({"model": "m", "base_url": server.base_url, **QUICK}), cache)
        prices = {"m": (100_000.0, 200_000.0)}  # 7 and 3 tokens: 70 and 60 cents
        first = judge(responses, [rb_llm()], [client], prices=prices, progress=lambda *news: calls.append(news))
        again = judge(responses, [rb_llm()], [client], prices=prices)
    # Ten replies of 7 and 3 tokens; a refused request has no tokens; an equal prompt is not sent again.
    assert first.usage == {"m": Usage(11, 1, 1, 0, 70, 30, pytest.approx(13.0))}
    assert again.usage == {"m": Usage(1, 11, 1, 0, 0, 0, 0.0)}
    assert calls[-1][0].startswith("m\t11 requested at ")
    assert calls[-1][0].endswith("  1 cached  1 failed  100 tokens  $13.00")
    assert calls[-1][1:] == (11, 12), "a failed request is not done"


def of_conversations(count: int) -> list[Response]:
    return [response(history=(f"About ferry {number}.", "Yes?"), task_id=f"{number}<::>2") for number in range(count)]


def kinds(prompts: list[str]) -> list[str]:
    """Return the purpose of each prompt, from the format at its end."""
    words = {"statements": '"statements"', "support": '"supported"', "rating": "Rating", "idk": "Verdict"}
    words |= {"questions": '"questions"', "same": '"same"'}
    return [next(kind for kind, word in words.items() if word in form_of(prompt)) for prompt in prompts]


def test_a_second_step_with_an_equal_beginning_is_sent_next(tmp_path: Path) -> None:
    with chat_server(as_server(obedient())) as server, ReplyCache(tmp_path / "replies.sqlite") as cache:
        client = CachedClient(OpenAIClient({"model": "m", "base_url": server.base_url, "slots": 1, **QUICK}), cache)
        first = judge(of_conversations(3), rubrics_named(["rb_llm", "rl_f", "idk"]), [client])
        asked = kinds(server.asked)
        again = judge(of_conversations(3), rubrics_named(["rb_llm", "rl_f", "idk"]), [client])
    assert {verdict.outcome for verdict in first.all()} == {VerdictOutcome.GIVEN}
    assert [asked[index + 1] for index, kind in enumerate(asked) if kind == "statements"] == ["support"] * 3
    assert len(server.asked) == 10  # question and answer are equal three times: one idk verdict
    assert [one.value for one in again.all()] == [one.value for one in first.all()]


def test_a_second_step_with_another_beginning_waits_for_similar_ones(tmp_path: Path) -> None:
    with chat_server(as_server(obedient())) as server:
        client = OpenAIClient({"model": "m", "base_url": server.base_url, "slots": 1, **QUICK})
        judge(of_conversations(3), rubrics_named(["rl_r"]), [client])
    assert kinds(server.asked) == ["questions"] * 3 + ["same"] * 3  # equal prompts, and no cache


def test_equal_answers_on_other_passages_have_separate_second_steps(tmp_path: Path) -> None:
    """One first step serves three answers; two of them have equal passages."""
    answers = [response(passages=("It runs.",)), response(passages=("It runs.",)), response(passages=("In May.",))]
    (rl_f,) = rubrics_named(["rl_f"])
    with chat_server(as_server(obedient())) as server, ReplyCache(tmp_path / "replies.sqlite") as cache:
        client = CachedClient(OpenAIClient({"model": "m", "base_url": server.base_url, **QUICK}), cache)
        verdicts = judge(answers, [rl_f], [client])
    assert sorted(kinds(server.asked)) == ["statements", "support", "support"]
    assert [score.value for score in verdicts.scores("rl_f")] == [0.5] * 3
    assert verdicts.usage["m"].n_asked == 3


def test_a_second_step_shared_by_several_answers_is_sent_once(tmp_path: Path) -> None:
    """Different answers, equal statements and passages: one second step for all three."""
    (rl_f,) = rubrics_named(["rl_f"])
    with chat_server(as_server(obedient())) as server, ReplyCache(tmp_path / "replies.sqlite") as cache:
        client = CachedClient(OpenAIClient({"model": "m", "base_url": server.base_url, **QUICK}), cache)
        verdicts = judge(many(3), [rl_f], [client])
    assert sorted(kinds(server.asked)) == ["statements"] * 3 + ["support"]
    assert [score.value for score in verdicts.scores("rl_f")] == [0.5] * 3


def test_concurrent_calls_send_each_step_once(tmp_path: Path) -> None:
    found = []

    def work() -> None:
        with ReplyCache(tmp_path / "replies.sqlite") as cache:
            endpoint = {"model": "m", "base_url": server.base_url, "slots": 4, **QUICK}
            rubrics = rubrics_named(["rb_llm", "rl_f", "idk"])
            found.append(judge(of_conversations(12), rubrics, [CachedClient(OpenAIClient(endpoint), cache)]))

    with chat_server(as_server(obedient())) as server:
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {verdict.outcome for one in found for verdict in one.all()} == {VerdictOutcome.GIVEN}
    assert len(server.asked) == len(set(server.asked)) == 3 * 12 + 1


def test_a_cached_first_step_is_not_sent_again(tmp_path: Path) -> None:
    fails = {"now": True}

    def problems(prompt: str, _before: int) -> Action | None:
        return refusal(400, "cannot") if fails["now"] and '"supported"' in form_of(prompt) else None

    (rl_f,) = rubrics_named(["rl_f"])
    with chat_server(as_server(obedient(), problems)) as server, ReplyCache(tmp_path / "replies.sqlite") as cache:
        client = CachedClient(OpenAIClient({"model": "m", "base_url": server.base_url, **QUICK}), cache)
        broken = judge(of_conversations(2), [rl_f], [client])
        fails["now"] = False
        n_before = len(server.asked)
        whole = judge(of_conversations(2), [rl_f], [client])
    assert {verdict.outcome for verdict in broken.all()} == {VerdictOutcome.FAILED}
    assert [score.value for score in whole.scores("rl_f")] == [0.5, 0.5]
    assert kinds(server.asked[n_before:]) == ["support"] * 2


def test_usage_without_a_price_has_no_cost() -> None:
    verdicts = judge(many(3), [rb_llm()], [ScriptedClient(obedient())])
    assert verdicts.usage == {"scripted": Usage(3, 0, 0, 0, 15, 6)}


def test_many_long_names_are_replaced_by_a_count() -> None:
    calls: list[str] = []
    clients = [ScriptedClient(obedient(), name=f"a-server/with-a-long-name-{number}") for number in range(3)]
    judge(many(1), [idk()], clients, progress=lambda note, *_: calls.append(note))
    assert {note.partition("\t")[0] for note in calls} == {"3 judges"}


def test_judges_work_concurrently() -> None:
    meeting = threading.Barrier(3, timeout=20)

    def script(prompt: str, n_before: int) -> str | Reply:
        meeting.wait()  # broken, and so an error, unless all three prompts are sent at once
        return obedient()(prompt, n_before)

    clients = [ScriptedClient(script, name=name) for name in ("one", "two", "three")]
    verdicts = judge(many(1), [idk()], clients)
    assert [coverage.share for coverage in verdicts.coverage()] == [1.0] * 3


def interrupt_process() -> None:
    os.kill(os.getpid(), signal.SIGINT)  # Ctrl-C reaches the main thread from any sender


def interrupt_thread() -> None:
    raise KeyboardInterrupt


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Enable Ctrl-C as in a terminal: processes started in the background, and their children, ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("recalls", [True, False], ids=["before the next request", "with requests open"])
@pytest.mark.parametrize("interrupt", [interrupt_process, interrupt_thread])
def test_an_interruption_ends_the_threads_at_their_next_reply(interrupt: Callable[[], None], recalls: bool) -> None:
    clients = [ScriptedClient(slowly(obedient()), name=name, recalls=recalls) for name in ("one", "two")]

    calls: list[int] = []

    def progress(_note: str, done: int, _total: int | None) -> None:
        calls.append(done)  # a judge that begins late shows the same number again
        if done == 3 and calls.count(3) == 1:
            interrupt()

    with pytest.raises(KeyboardInterrupt):
        judge(many(200), [idk()], clients, progress=progress)
    for thread in threading.enumerate():
        if thread.name in ("one", "two"):
            thread.join(5)
            assert not thread.is_alive()
    assert sum(len(client.asked) for client in clients) < 20


def slowly(script: Any) -> Any:
    def text(prompt: str, n_before: int) -> str | Reply:
        time.sleep(0.01)
        reply: str | Reply = script(prompt, n_before)
        return reply

    return text


def as_server(script: Any, problems: Any = lambda _prompt, _before: None) -> Script:
    def action(prompt: str, n_before: int) -> Action:
        problem: Action | None = problems(prompt, n_before)
        return problem or completion(script(prompt, n_before))

    return action


def test_final_refusals_of_a_judge_are_counted_and_the_median_excludes_them() -> None:
    responses = many(30)

    def problems(prompt: str, _before: int) -> Action | None:
        return refusal(400, "cannot") if any(f"Answer {number}." in prompt for number in (3, 13, 23)) else None

    with (
        chat_server(as_server(obedient(rating=4))) as well,
        chat_server(as_server(obedient(rating=8), problems)) as failing,
    ):
        clients = [
            OpenAIClient({"model": name, "base_url": server.base_url, **QUICK})
            for name, server in (("well", well), ("failing", failing))
        ]
        verdicts = judge(responses, [rb_llm()], clients)
    coverage = {item.judge: (item.n_answered, item.n_asked, item.missing) for item in verdicts.coverage()}
    assert coverage == {"well": (30, 30, {}), "failing": (27, 30, {"failed": 3})}
    values = [score.value for score in verdicts.scores("rb_llm")]
    assert values == [0.4 if number in (3, 13, 23) else pytest.approx(0.6) for number in range(30)]
    with raises(JudgeError):
        verdicts.require_coverage(0.95)
    verdicts.require_coverage(0.9)


def test_an_unreachable_address_loses_that_judge_only() -> None:
    with chat_server(as_server(obedient())) as well:
        addresses = {"well": well.base_url, "gone": f"http://127.0.0.1:{closed_port()}/v1"}
        clients = [OpenAIClient({"model": name, "base_url": url, **QUICK}) for name, url in addresses.items()]
        verdicts = judge(many(3), [rb_llm()], clients)
    assert {coverage.judge: coverage.share for coverage in verdicts.coverage()} == {"well": 1.0, "gone": 0.0}
    assert {verdicts.verdict(0, "rb_llm", name).outcome.value for name in addresses} == {"given", "judge lost"}
