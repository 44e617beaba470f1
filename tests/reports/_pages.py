"""Pages of small evaluations with known scores, and pages of hostile texts."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ragtasks.reports.page import MOST_BYTES, write_page
from ragtasks.results import read_evaluations
from ragtasks.tables import Section, Table, Value
from tests.reports._saved import Values, save

HOSTILE = "</script><script>window.harmed=1</script><img src=x onerror='window.harmed=1'>]]>--><b>&amp;\u2028${1}"
TURNS = tuple((conversation, turn) for conversation in ("a", "b", "c") for turn in (1, 2, 3, 4))
TABLE = Table(
    "Means",
    ("model", "n", "rb_alg"),
    (
        ("ten", 10, Value(0.25, 10, 10, 0.2, 0.3)),
        ("nine", 9, Value(None, 0, 9)),
        ("two", 2, Value(0.5, 1, 2)),
        ("one", 1, Value(-0.5, 1, 1)),
    ),
)


def verdicts(task_id: str, reply: str = "Rating 1: 7") -> list[dict[str, Any]]:
    """Return the verdicts of two judges on a response. The second judge's reply is unreadable."""
    shared = {"task_id": task_id, "rubric": "rb_llm", "attempts": 1}
    given = {"judge": "steady", "outcome": "given", "label": "7", "value": 0.7, "reason": "", "replies": [reply]}
    lost = {"judge": "flaky", "outcome": "unparsable", "label": None, "value": None, "reason": "no rating"}
    return [shared | given, shared | lost | {"replies": ["hm", reply], "attempts": 2}]


def vary(sample: dict[str, Any]) -> None:
    """Make turn 2 a refusal and turn 3 unanswerable, hide the reference passage in turn 4, and change labels of b."""
    doc = sample["doc"]
    turn = doc["turn"]
    doc["scoring"]["idk"] = "yes" if turn == 2 else "no"
    if turn == 3:
        doc.update(answerability="UNANSWERABLE", references=[])
    if turn == 4:
        doc["passages"] = [passage for passage in doc["passages"] if passage["passage_id"] != "p1"]
    if doc["conversation_id"] == "b":
        doc.update(domain="fiqa", question_types=["Opinion", "Keyword"], multi_turn="Follow-up")
        doc["scoring"]["verdicts"] = verdicts(doc["task_id"])


def poison(sample: dict[str, Any]) -> None:
    """Put the hostile text into every text of a sample."""
    vary(sample)
    doc = sample["doc"]
    for name in ("question", "target", "multi_turn", "task_id", "domain"):
        doc[name] += HOSTILE
    doc["question_types"] = [HOSTILE]
    doc["history"] = [{"role": "user", "content": HOSTILE}]
    doc["references"] = ["p1" + HOSTILE, HOSTILE]
    for passage in doc["passages"]:
        passage.update({name: text + HOSTILE for name, text in passage.items()})
    doc["scoring"]["verdicts"] = verdicts(doc["task_id"], HOSTILE)
    for verdict in doc["scoring"]["verdicts"]:
        verdict.update(judge=verdict["judge"] + HOSTILE, rubric=HOSTILE, reason=HOSTILE)
    doc["scoring"].update(idk_reason=HOSTILE, unscored={"idk_yes": HOSTILE})
    sample["idk_yes"] = float("nan")
    sample["filtered_resps"] = [HOSTILE]


def always(values: Values) -> Callable[[str], Values]:
    """Return a function that gives every task the same values."""
    return lambda _: values


def known_results(folder: Path) -> Path:
    """Save two models in two settings. In full RAG, `low` loses half of its score with the reference passages."""
    for day, (model, setting, value) in enumerate(
        [("high", "reference", 0.9), ("high", "full_rag", 0.9), ("low", "reference", 0.6), ("low", "full_rag", 0.3)], 1
    ):
        known: Values = {"rb_alg": value, "rouge_l": None if model == "low" else 0.5}
        save(folder, model, day=day, setting=setting, values=always(known), change_sample=vary, tasks=TURNS)
    return folder


def write(folder: Path, page: Path, *, hostile: bool = False, most_bytes: int = MOST_BYTES) -> Path:
    """Write the page of the results in a folder, and return its path."""
    title = HOSTILE if hostile else "mtrag"
    table = Table(title, (title, "n"), ((title, 1),), title) if hostile else TABLE
    drawn = Table(
        "By setting", ("setting", "model", "n", "rb_alg"), (("full_rag", title, 9, Value(0.5, 9, 9, 0.4, 0.6)),)
    )
    sections = [Section(title, {title: title}, (table, drawn))]
    write_page(read_evaluations([folder]), sections, page, most_bytes=most_bytes)
    return page


def blocks_of(page: Path) -> list[Any]:
    """Return the contents of the page's packed blocks, in order."""
    found = re.findall(r'<script type="application/octet-stream" id="block-\d+">([^<]*)</script>', page.read_text())
    return [json.loads(zlib.decompress(base64.b64decode(text))) for text in found]
