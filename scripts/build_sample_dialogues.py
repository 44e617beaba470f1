"""Builds the samples of four benchmarks from one source, each in its official file layout.

`scripts/sample_source/dialogues.json` holds conversations: each turn has a question that needs its conversation and one
that does not, short answers, a long one, a reply that was edited with its labels, and passages of the documents in
`scripts/sample_source/clapnq.json`. TopiOCQA is the short answers, FaithDial the long ones with the labels, CORAL the
long ones with citations, LiveRAG the questions that need no conversation. The files come out the same each time, up to
what pyarrow writes of its own version.

    python scripts/build_sample_dialogues.py [--into DIR]
"""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from sample_files import SAMPLES, json_lines, read_source, run_builder, statistics_file, write_files

from ragtasks.benchmarks import coral as coral_files
from ragtasks.benchmarks import liverag as liverag_files
from ragtasks.benchmarks import topiocqa as topiocqa_files

VERSION = "1"
Passages = dict[str, dict[str, Any]]


def passages() -> Passages:
    """Return source reference (`slug#number`) -> id, title and text of a passage; ids count from 1."""
    found: Passages = {}
    for document in read_source("clapnq")["documents"]:
        for number, text in enumerate(document["passages"]):
            title = document["title"]
            found[f"{document['id']}#{number}"] = {"id": len(found) + 1, "title": title, "part": number, "text": text}
    return found


def parquet(rows: list[dict[str, Any]]) -> bytes:
    """Return rows as a Parquet file."""
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


def topiocqa(conversations: list[dict[str, Any]], known: Passages) -> dict[str, bytes]:
    """Return the dev split and the corpus of TopiOCQA."""
    rows = []
    for number, conversation in enumerate(conversations, start=1):
        context: list[str] = []
        for turn, item in enumerate(conversation["turns"], start=1):
            passage, (answer, *others) = known[item["passages"][0]], item["short"]
            place = {"Topic": passage["title"], "Topic_section": f"Part {passage['part'] + 1}"}
            more = [{"Answer": text, **place, "Rationale": ""} for text in others]
            rows.append(
                {
                    "Conversation_no": number, "Turn_no": turn, "Question": item["question"], "Answer": answer, **place,
                    "Rationale": "" if answer == "UNANSWERABLE" else passage["text"], "is_nq": turn == 1,
                    "Context": list(context), "Additional_answers": more,
                    "Gold_passage": {
                        "id": f"doc{passage['id']}", "title": " [SEP] ".join(place.values()), "text": passage["text"]
                    },
                }
            )  # fmt: skip
            context += [item["question"], answer]
    corpus = [
        {
            "id": f"doc{one['id']}", "title": one["title"], "sub_title": f"Part {one['part'] + 1}",
            "contents": one["text"],
        }
        for one in known.values()
    ]  # fmt: skip
    return {"data/topiocqa_valid.jsonl": json_lines(rows), "wiki_corpus/train-00000-of-00001.parquet": parquet(corpus)}


def faithdial(conversations: list[dict[str, Any]], known: Passages) -> dict[str, bytes]:
    """Return the test split of FaithDial."""
    dialogues = []
    for conversation in conversations:
        history, utterances = [], []
        for item in conversation["turns"]:
            history.append(item["question"])
            utterances.append(
                {
                    "history": list(history), "speaker": "Wizard", "knowledge": known[item["passages"][0]]["text"],
                    "original_response": item["edited"] or None, "response": item["long"],
                    "BEGIN": item["begin"], "VRM": item["vrm"],
                }
            )  # fmt: skip
            history.append(item["long"])
        dialogues.append({"utterances": utterances})
    return {"data/test.json": json.dumps(dialogues, ensure_ascii=False, indent=1).encode() + b"\n"}


def answered(conversations: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the turns of each conversation that have an answer: two of the benchmarks have no others."""
    return [[turn for turn in item["turns"] if turn["short"][0] != "UNANSWERABLE"] for item in conversations]


def coral(conversations: list[dict[str, Any]], known: Passages) -> dict[str, bytes]:
    """Return the test split and the corpus of CORAL."""
    rows = []
    for number, items in enumerate(answered(conversations), start=1):
        turns = []
        for turn, item in enumerate(items, start=1):
            pids = [known[name]["id"] for name in item["passages"]]
            marks = "".join(f"[{pid}]" for pid in pids)
            turns.append(
                {
                    "turn_id": turn, "question": item["question"], "response": f"{item['long']}{marks}",
                    "golden_rewrite": item["standalone"], "golden_docs_pids": pids, "golden_docs_text": [],
                }
            )  # fmt: skip
        kind = ("LDS", "SIDS", "STRW", "DTRW")[(number - 1) % 4]
        rows.append({"conv_id": f"Test_{kind}_{number}", "turns": turns})
    corpus = [{"ref_id": one["id"], "ref_string": f"{one['title']}. {one['text']}"} for one in known.values()]
    text = json.dumps(rows, ensure_ascii=False, indent=1).encode() + b"\n"
    return {"test/test_conversation.json": text, "passage_corpus.json": json_lines(corpus)}


def liverag(conversations: list[dict[str, Any]], known: Passages) -> dict[str, bytes]:
    """Return LiveRAG's questions."""
    rows = []
    for items in answered(conversations):
        for turn, item in enumerate(items):
            documents = [known[name] for name in item["passages"]][:2]
            rows.append(
                {
                    "Index": len(rows), "Question": item["standalone"], "Answer": item["long"],
                    "Supporting_Documents": [
                        {"content": one["text"], "doc_id": f"<urn:uuid:00000000-0000-4000-8000-{one['id']:012}>"}
                        for one in documents
                    ],
                    "Answer_Claims": {"direct": [item["long"]], "useful": [], "useless": []},
                    "Session": ("First", "Second", "Both")[turn % 3],
                    "DataMorgana_Config": json.dumps(
                        {"answer-type": "multi-aspect" if documents[1:] else "factoid", "user-expertise": "novice"}
                    ),
                }
            )  # fmt: skip
    return {"LiveRAG_banchmark_20250910.parquet": parquet(rows)}


def corpora(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the derived corpora: a sample that is installed need not be writable."""
    with tempfile.TemporaryDirectory() as folder:
        write_files(files, Path(folder))
        made = [
            module.corpus_file(Path(folder) / name, module.DOMAIN)
            for name, module in (("topiocqa", topiocqa_files), ("coral", coral_files), ("liverag", liverag_files))
        ]
        return {str(path.relative_to(folder)): path.read_bytes() for path in made}


def build() -> dict[str, bytes]:
    """Return path -> content of every file of the samples, the name of each benchmark in front."""
    conversations, known = read_source("dialogues"), passages()
    n_turns = sum(len(item["turns"]) for item in conversations)
    n_answered = sum(map(len, answered(conversations)))
    files: dict[str, bytes] = {}
    for make in (topiocqa, faithdial, coral, liverag):
        n = n_answered if make is liverag else len(conversations)
        n_tasks = n_answered if make in (coral, liverag) else n_turns
        statistics = {"version": VERSION, "counts": {"conversations": n, "tasks": n_tasks}}
        content = {**make(conversations, known), "sample.json": statistics_file(statistics)}
        files |= {f"{make.__name__}/{path}": text for path, text in content.items()}
    return {**files, **corpora(files)}


if __name__ == "__main__":
    run_builder(__doc__, build, SAMPLES)
