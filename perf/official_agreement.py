"""Agreement with the official judges: `python perf/official_agreement.py --checkout DIR --data DIR`.

DIR of `--checkout` is IBM/mt-rag-benchmark at commit cc5b1d4 with its scripts, DIR of `--data` the folder with the task
files (often the same). The scripts' own functions run next to ours, on random tasks of MTRAG and MTRAG-UN with unusual
answers and a judge with unusual replies. Counted are:

- prompts that are bytewise equal when sent to the judge,
- replies that are parsed equally,
- conditioned scores that are equal to 1e-9 (the scripts write ten digits).

The prompts of RL_F are ragas's and require the extra `ragas`. `--multihop DIR` is yixuantt/MultiHop-RAG at commit
3dd4d4e: the prompts of its `qa_llama.py` are compared with ours. `--ragnarok DIR` is castorini/ragnarok at commit
7233fa7: its prompts for GPT are compared with ours of TREC RAG, except for ftfy's repairs of Unicode.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import importlib.util
import json
import math
import os
import random
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perf.official_scripts import (
    RAGAS,
    Scripts,
    load_scripts,
    multihop_prompt,
    ragnarok_messages,
    rows_of,
    run_quietly,
    task_file,
)
from ragtasks.benchmarks import Benchmark, benchmark_folder, build_doc, open_benchmark, passage_rows, response_of
from ragtasks.clients import Outcome, Prompt, Reply
from ragtasks.files import OFFICIAL
from ragtasks.judges import CLARIFICATION, IDK, RB_LLM, RL_F, Rubric, VerdictOutcome
from ragtasks.judges._panel import judge
from ragtasks.judges._question import Finding, Question
from ragtasks.judges.official import ibm_clarification, ibm_idk, ibm_rating, official_rubrics, ragas_rl_f
from ragtasks.metrics import IdkLabel, Semantics, SemanticScore, answer_text
from ragtasks.prompts import official_prompt
from ragtasks.records import Answerability, IdkVerdict, Response, Setting
from ragtasks.suites import ScoringInputs
from ragtasks.suites import _mtrag as mtrag

TASK_FILES = {
    "mtrag": "mtrag-human/generation_tasks/reference.jsonl",
    "mtrag_un": "mtragun-human/generation_tasks/reference.jsonl",
}
N_TASKS = 600
MULTIHOP_SAMPLE = benchmark_folder("multihop_rag", "sample", Path())
RAGNAROK_MODES = {"trec_rag24": "chatqa", "trec_rag25": "ragnarok_v4"}
_ODD_PASSAGES = (
    {"title": "", "text": "First [1] line\n second\tline [[2]], [x], [3, [4] and ] [\uff15]."},
    {"title": "A [7] title ", "text": " [8]{{ x }} [] [9"},
    {"title": "Empty", "text": ""},
)
_END_OF_THINKING = "</think>"
_WORDS = (
    *("Rating:", "Rating: ", "[[", "]]", "[", "]", "7", "10", "0", "-3", ".", ".5", "8.", "/10", " ", "\n", "٣"),
    *("Overall Rating: ", "Score: ", "[Rating]\n", " out of 10", "for example: ", "[[5]]", "rating: [[4]]", "9"),
    *("yes", "No", "partial", "**", "unknown", "Yes.", "{", "}", '"decision"', ": ", '"yes"', '"NO"', '" yes"', "null"),
    *(
        "```json",
        "```",
        ", ",
        '"explanation": "a {b} c"',
        "\\_",
        "\\u00e9",
        '{"decision": "yes"}',
        '{"decision": "no"}',
    ),
)
_ODD_ANSWERS = (
    "",
    "I do not know.",
    "{{ response }} {inquiry} {% raw %} {0} %s",
    "First line\nsecond line\r\nthird\u2028fourth\x0cfifth",
    "user: what else?\nagent: nothing",
    "  blanks at both ends \n",
    "Ünïcode — naïve café, 東京 and ελληνικά \U0001f6a2",
)


@dataclass
class Case:
    """A task with an answer, as a line of a task file and as a response."""

    row: dict[str, Any]
    response: Response
    rl_f: float | None = None
    """Random share of supported statements. The prompts of RL_F are compared separately."""


@dataclass(frozen=True)
class HashedJudge:
    """A judge that selects its replies by a hash of the prompt, or echoes the prompt without replies."""

    replies: Sequence[str] = ()
    name: str = "hashed"

    def reply_to(self, prompt: str) -> str:
        """Return the reply to a prompt; equal prompts get equal replies."""
        return self.replies[zlib.crc32(prompt.encode()) % len(self.replies)] if self.replies else prompt

    def describe(self) -> Mapping[str, Any]:
        """Return the inputs that determine replies."""
        return {"model": self.name}

    def answer(self, prompts: Sequence[Prompt], *_: Any) -> list[Reply]:
        """Return one reply per prompt, each of one message."""
        assert all(len(prompt.messages) == 1 for prompt in prompts)
        return [Reply(Outcome.ANSWERED, self.reply_to(prompt.payload()[0]["content"])) for prompt in prompts]


def odd_replies(n_replies: int, seed: int = 0) -> list[str]:
    """Return replies composed of the strings that the parsers search for, and some real replies of judges."""
    chance = random.Random(seed)
    made = ["".join(chance.choices(_WORDS, k=chance.randint(1, 9))) for _ in range(n_replies)]
    return list(dict.fromkeys(["", "   ", *made]))


def random_cases(data: Path, name: str, n_tasks: int, seed: int = 0) -> tuple[Benchmark, list[Case]]:
    """Return a benchmark and random tasks of it, answered by another task's target or by unusual text."""
    benchmark = open_benchmark(name, data)
    rows = rows_of(data / TASK_FILES[name])
    chance = random.Random(seed)
    chosen = sorted(chance.sample(range(len(rows)), n_tasks))
    answers = [*_ODD_ANSWERS, *(task.target for task in benchmark.tasks)]
    cases = []
    for index in chosen:
        task, answer = benchmark.tasks[index], answers[chance.randrange(len(answers))]
        if chance.random() < 0.1:
            answer = chance.choice(_ODD_ANSWERS)
        row = {**rows[index], "predictions": [{"text": answer}]}
        # Answers take the path through the harness, so text lost there is missing from the prompts too.
        doc = build_doc(benchmark, task, Setting.REFERENCE, OFFICIAL, task.references)
        response = response_of(doc, answer_text(answer, _END_OF_THINKING))
        cases.append(Case(row, response, chance.choice([None, chance.random()])))
    return benchmark, cases


def official_prompts_of(scripts: Scripts, cases: Sequence[Case]) -> dict[str, list[str]]:
    """Return rubric -> the scripts' prompt for each case, in order."""
    utils = scripts.utils
    with task_file([case.row for case in cases]) as path:
        frame = utils.read_json_with_pandas(str(path))
    frame["inquiry"] = frame["input"].apply(utils.extract_conversation)
    frame["document"] = frame["contexts"].apply(utils.extract_document_texts)
    frame["response"] = frame["predictions"].apply(utils.extract_texts)
    frame["reference_answer"] = frame["targets"].apply(utils.extract_reference)
    frame["previous_conversation"], frame["current_question"] = zip(
        *frame["inquiry"].apply(utils.split_conversation), strict=True
    )
    return {
        RB_LLM: utils.format_conversation_radbench(frame),
        IDK: utils.format_idk_judge(frame),
        CLARIFICATION: scripts.underspecified.format_underspecified_judge(frame),
    }


def our_prompts_of(checkout: Path, cases: Sequence[Case], names: Sequence[str]) -> dict[str, list[str | None]]:
    """Return rubric -> our prompt for each case, None if no request is sent."""
    prompts = {}
    for rubric in official_rubrics(checkout, names):
        if rubric.name in names:
            # The judge echoes: the reply stored with a verdict is its prompt, in any order.
            verdicts = judge([case.response for case in cases], [rubric], [HashedJudge()], max_attempts=1).all()
            prompts[rubric.name] = [verdict.replies[0] if verdict.replies else None for verdict in verdicts]
    return prompts


def ragas_prompts(scripts: Scripts, cases: Sequence[Case]) -> tuple[int, int, int, int]:
    """Return (first prompts equal, of, second prompts equal, of) for ragas's own metric and our rubric."""
    from langchain_core.outputs import Generation, LLMResult
    from ragas.llms.base import BaseRagasLLM
    from ragas.metrics import faithfulness

    statements = [json.dumps({"statements": [f"Claim {n}, «so»." for n in range(1 + k)]}) for k in range(3)]

    class Recorder(BaseRagasLLM):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.sent_prompts: list[str] = []

        async def agenerate_text(self, prompt: Any, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        def generate_text(self, prompt: Any, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        def is_finished(self, response: Any) -> bool:
            return True

        async def generate(self, prompt: Any, *_: Any, **__: Any) -> Any:
            self.sent_prompts.append(prompt.to_string())
            return LLMResult(generations=[[Generation(text=_ragas_reply(statements, self.sent_prompts))]])

    rubric, equal = ragas_rl_f(), Counter[int]()
    for case in cases:
        theirs, ours = Recorder(), list[str]()
        utils, row = scripts.utils, case.row
        metric = replace(faithfulness, llm=theirs)
        sample = {
            "user_input": utils.extract_conversation(row["input"]),
            "response": utils.extract_texts(row["predictions"]),
            "retrieved_contexts": utils.extract_document_texts(row["contexts"]),
        }
        value = asyncio.run(metric._ascore(sample, []))
        step = rubric.open(case.response)
        while isinstance(step, Question):
            ours.append(step.text)
            step = step.read(_ragas_reply(statements, ours))
        assert len(ours) == len(theirs.sent_prompts) == 2
        assert step.value == value
        equal.update(index for index in (0, 1) if ours[index] == theirs.sent_prompts[index])
    return equal[0], len(cases), equal[1], len(cases)


def _ragas_reply(statements: Sequence[str], prompts: Sequence[str]) -> str:
    size = zlib.crc32(prompts[0].encode()) % len(statements)
    if len(prompts) == 1:
        return statements[size]
    verdicts = [{"statement": "s", "reason": "r", "verdict": n % 2} for n in range(1 + size)]
    return json.dumps({"statements": verdicts})


def reader_agreement(scripts: Scripts, replies: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return parser -> (replies parsed equally, replies)."""
    labels = {IdkVerdict.YES: 1, IdkVerdict.NO: 0, IdkVerdict.PARTIAL: 0.5, None: "unknown"}
    pairs: Mapping[str, list[tuple[Any, Any]]] = {
        "rating": [(scripts.utils.extract_rating(reply), ibm_rating(reply)) for reply in replies],
        "idk": [(scripts.utils.first_token_idk(reply), labels[ibm_idk(reply)]) for reply in replies],
        "clarification": list(zip(_clarifications(scripts, replies), map(ibm_clarification, replies), strict=True)),
    }
    return {name: (sum(left == right for left, right in row), len(row)) for name, row in pairs.items()}


def _clarifications(scripts: Scripts, replies: Sequence[str]) -> list[float]:
    """Return the scripts' labels for replies to the clarification prompt, by their complete function."""
    rows = [
        {"task_id": str(n), "input": [{"speaker": "user", "text": "?"}], "predictions": [{"text": f"answer {n}"}]}
        for n in range(len(replies))
    ]
    waiting = iter(replies)
    with task_file(rows) as path:
        judge_file = functools.partial(scripts.wrapper.underspecified_eval, "judge", str(path), str(path))
        run_quietly(scripts, lambda _: next(waiting), judge_file)
        return [row["metrics"]["underspecified_eval"][0] for row in rows_of(path)]


def conditioned_agreement(
    scripts: Scripts, checkout: Path, benchmark: Benchmark, cases: Sequence[Case], replies: Sequence[str]
) -> dict[str, tuple[int, int]]:
    """Return column -> (scores equal, scores): both pipelines from task file to conditioned score, with one judge."""
    client = HashedJudge(replies)
    ours = _our_scores(checkout, benchmark, cases, client)
    for case, scores in zip(cases, ours, strict=True):
        case.row["metrics"] = {"RB_agg": [scores["rb_alg_raw"].value], "RL_F": [case.rl_f]}
    with task_file([case.row for case in cases]) as path:
        run_quietly(scripts, client.reply_to, lambda: _judge_file(scripts.wrapper, str(path)))
        theirs = [row["metrics"] for row in rows_of(path)]
    columns = {"rb_llm_ibm": "RB_llm", "rl_f_ibm": "RL_F", "rb_alg_ibm": "RB_agg"}
    return {
        own: (
            sum(_equal(row[own].value, row_theirs[f"{name}_idk_underspecified"][0]) for row, row_theirs in both),
            len(cases),
        )
        for own, name in columns.items()
        for both in [list(zip(ours, theirs, strict=True))]
    }


def _judge_file(wrapper: Any, path: str) -> None:
    wrapper.underspecified_eval("judge", path, path)
    wrapper.run_idk_judge("vllm", "judge", path, path)
    wrapper.run_radbench_judge("vllm", "judge", path, path)
    wrapper.get_idk_conditioned_metrics(path, path)


def _our_scores(
    checkout: Path, benchmark: Benchmark, cases: Sequence[Case], client: HashedJudge
) -> list[dict[str, Any]]:
    """Return our scores of each case, with random BERTScore and RL_F."""
    rl_f_of = {case.response.task.task_id: case.rl_f for case in cases}

    def rl_f(response: Response) -> Finding:
        value = rl_f_of[response.task.task_id]
        return Finding("given", value, VerdictOutcome.NO_STATEMENTS if value is None else VerdictOutcome.GIVEN)

    names = [RB_LLM, IDK, *([CLARIFICATION] if benchmark.name == "mtrag_un" else [])]
    responses = [case.response for case in cases]
    verdicts = judge(responses, [*official_rubrics(checkout, names), Rubric(RL_F, "given", rl_f)], [client])
    labels = [IdkLabel(None, "not used") for _ in responses]
    chance = random.Random(0)
    semantics = Semantics([SemanticScore(*(chance.random() for _ in range(3))) for _ in responses])
    return list(mtrag.score(ScoringInputs(benchmark, responses, labels, semantics, verdicts)))


def _equal(left: float | None, right: float | None) -> bool:
    if left is None or right is None:
        return left is right
    return math.isclose(left, right, rel_tol=0, abs_tol=1e-9)


def prompt_agreement(scripts: Scripts, checkout: Path, cases: Sequence[Case]) -> dict[str, tuple[int, int]]:
    """Return rubric -> (prompts bytewise equal, prompts); clarification is only for underspecified tasks."""
    theirs = official_prompts_of(scripts, cases)
    ours = our_prompts_of(checkout, cases, list(theirs))
    table = {}
    for name, prompts in ours.items():
        sent = [
            (own, official)
            for own, official, case in zip(prompts, theirs[name], cases, strict=True)
            if name != CLARIFICATION or case.response.task.answerability is Answerability.UNDERSPECIFIED
        ]
        assert name != CLARIFICATION or sum(own is not None for own in prompts) == len(sent)
        table[name] = (sum(own is not None and own.encode() == official.encode() for own, official in sent), len(sent))
    return table


def multihop_agreement(checkout: Path, data: Path) -> tuple[int, int]:
    """Return (prompts bytewise equal to those of qa_llama.py, prompts) for the tasks of MultiHop-RAG under `data`."""
    benchmark = open_benchmark("multihop_rag", data)
    template = official_prompt("multihop_rag", checkout).template
    pairs = [
        (
            template.render(question=task.question, passages=passage_rows(task.references)),
            multihop_prompt(checkout, task.question, [passage.text for passage in task.references]),
        )
        for task in benchmark.tasks
    ]
    return sum(ours.encode() == theirs.encode() for ours, theirs in pairs), len(pairs)


def ragnarok_agreement(checkout: Path, name: str) -> tuple[int, int]:
    """Return (prompts bytewise equal to Ragnarök's, prompts) for the sample of a TREC RAG track, with odd passages."""
    benchmark = open_benchmark(name, benchmark_folder(name, "sample", Path()))
    official = official_prompt(name, checkout)
    contexts = benchmark.read_contexts(Setting.FULL_RAG).passages
    pairs = []
    for task in benchmark.tasks:
        passages = [*passage_rows(contexts[task.task_id]), *_ODD_PASSAGES]
        ours = official.template.render(question=task.question, passages=passages)
        messages = [{"role": "system", "content": official.system}, {"role": "user", "content": ours}]
        pairs.append((messages, ragnarok_messages(checkout, RAGNAROK_MODES[name], task.question, passages)))
    return sum(ours == theirs for ours, theirs in pairs), len(pairs)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, default=os.environ.get("RAGTASKS_MTRAG_CHECKOUT"))
    parser.add_argument("--data", type=Path, help="folder with the task files; default: the checkout")
    parser.add_argument("--multihop", type=Path, help="checkout of yixuantt/MultiHop-RAG")
    parser.add_argument("--multihop-data", type=Path, default=MULTIHOP_SAMPLE, help="its files; default: the sample")
    parser.add_argument("--ragnarok", type=Path, help="checkout of castorini/ragnarok")
    parser.add_argument("--tasks", type=int, default=N_TASKS, help="random tasks, half of each benchmark")
    parser.add_argument("--replies", type=int, default=5000, help="odd replies")
    options = parser.parse_args()
    scripts = load_scripts(options.checkout)
    replies = odd_replies(options.replies)
    total: dict[str, Counter[str]] = {}
    for name in TASK_FILES:
        benchmark, cases = random_cases(options.data or options.checkout, name, options.tasks // 2)
        tables = {
            "prompts equal byte by byte": prompt_agreement(scripts, options.checkout, cases),
            "conditioned scores equal": conditioned_agreement(scripts, options.checkout, benchmark, cases, replies),
        }
        if importlib.util.find_spec(RAGAS):
            first, n_first, second, n_second = ragas_prompts(scripts, cases)
            steps = {"rl_f, statements": (first, n_first), "rl_f, verdicts": (second, n_second)}
            tables["prompts equal byte by byte"] |= steps
        for title, table in tables.items():
            for row, (equal, of) in table.items():
                total.setdefault(f"{title}: {row}", Counter()).update({"equal": equal, "of": of})
    for reader, (equal, of) in reader_agreement(scripts, replies).items():
        total[f"odd replies parsed equally: {reader}"] = Counter({"equal": equal, "of": of})
    if options.multihop:
        equal, of = multihop_agreement(options.multihop, options.multihop_data)
        total["prompts equal byte by byte: multihop_rag"] = Counter({"equal": equal, "of": of})
    for name in RAGNAROK_MODES if options.ragnarok else ():
        equal, of = ragnarok_agreement(options.ragnarok, name)
        total[f"prompts equal byte by byte: {name}"] = Counter({"equal": equal, "of": of})
    for row, counts in total.items():
        print(f"{row:<55} {counts['equal']:>6} of {counts['of']:>6}")


if __name__ == "__main__":
    main()
