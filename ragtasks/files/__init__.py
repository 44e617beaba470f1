"""Files as every part reads and writes them: JSON lines, runs and qrels, whole files, hashes."""

from ragtasks.files._atomic import publish, write_atomically, written_aside
from ragtasks.files._candidates import Candidate, RetrievedTopic, has_candidates, retrieved_topic
from ragtasks.files._contexts import contexts_in
from ragtasks.files._hashing import canonical_hash
from ragtasks.files._json_lines import (
    SAMPLE_STATISTICS,
    Violations,
    bounded_lines,
    broken_facts,
    json_array,
    json_lines,
    labels_of,
    parse_json,
    passage_of,
    read_whole,
    sample_statistics,
)
from ragtasks.files._qrels import read_qrels, write_qrels
from ragtasks.files._run_file import query_key, read_run
from ragtasks.files._runs import (
    CLOSED_BOOK,
    MANIFEST,
    OFFICIAL,
    Manifest,
    checked_run_name,
    new_run_name,
    read_contexts,
    read_manifest,
    run_folder,
    run_key,
    write_contexts,
    write_manifest,
)
from ragtasks.files._trec import Misfit, Ranked, Run, in_rank_order, qrel_lines, read_trec, run_line, write_trec

__all__ = [
    "CLOSED_BOOK",
    "MANIFEST",
    "OFFICIAL",
    "SAMPLE_STATISTICS",
    "Candidate",
    "Manifest",
    "Misfit",
    "Ranked",
    "RetrievedTopic",
    "Run",
    "Violations",
    "bounded_lines",
    "broken_facts",
    "canonical_hash",
    "checked_run_name",
    "contexts_in",
    "has_candidates",
    "in_rank_order",
    "json_array",
    "json_lines",
    "labels_of",
    "new_run_name",
    "parse_json",
    "passage_of",
    "publish",
    "qrel_lines",
    "query_key",
    "read_contexts",
    "read_manifest",
    "read_qrels",
    "read_run",
    "read_trec",
    "read_whole",
    "retrieved_topic",
    "run_folder",
    "run_key",
    "run_line",
    "sample_statistics",
    "write_atomically",
    "write_contexts",
    "write_manifest",
    "write_qrels",
    "write_trec",
    "written_aside",
]
