"""The official files of MTRAG and MTRAG-UN, pinned to one commit of IBM/mt-rag-benchmark.

Checksums and sizes are of the bytes in that commit. Six files are too large for the copies at hand when this table was
made, so their official checksums are not known here: the two task files with retrieved passages and the four corpora.
"""

from __future__ import annotations

from dataclasses import replace

from ragtasks.benchmarks.download import Source, SourceFile

_COMMIT = "cc5b1d481b391181b89f7ced860308482e785463"

_FILES = (
    SourceFile(
        "mtrag-human/conversations/conversations.json",
        "1a30baf5e025b4915e87556c64de37d7fe96e98f9f4ea9f3cf9322199e538f89",
        10032290,
        "tasks",
    ),
    SourceFile("mtrag-human/generation_tasks/RAG.jsonl", None, None, "tasks"),
    SourceFile("mtrag-human/generation_tasks/reference+RAG.jsonl", None, None, "tasks"),
    SourceFile(
        "mtrag-human/generation_tasks/reference.jsonl",
        "b3dde4076f9f692a99513e424a0a39f57591dbe45600a4c1017aaa7a7edcfaac",
        7608375,
        "tasks",
    ),
    SourceFile(
        "mtrag-human/retrieval_tasks/clapnq/clapnq_lastturn.jsonl",
        "df1313e94929f32d8c3b9b70b2e045a129db2f2fc7bec0adb5d20828b112178e",
        24356,
        "tasks",
    ),
    SourceFile(
        "mtrag-human/retrieval_tasks/clapnq/clapnq_questions.jsonl",
        "59ca817c12bcd13059fa675a9ee47cd76b6cba9b33eb3495907711d523cbd763",
        68367,
        "tasks",
    ),
    SourceFile(
        "mtrag-human/retrieval_tasks/clapnq/clapnq_rewrite.jsonl",
        "7e510ceae50c1897797c79c51c6002b56d11c252843282b5c62ccfe88baab44e",
        25301,
        "tasks",
    ),
    SourceFile(
        "mtrag-human/retrieval_tasks/clapnq/qrels/dev.tsv",
        "0766bc3e8fb6f515c34b33a97e568394303214915a2f835533705979b2303d97",
        38895,
        "tasks",
    ),
    SourceFile(
        "mtrag-human/retrieval_tasks/cloud/cloud_lastturn.jsonl",
        "85851a3d24fd09d07b6817ad023604f42ed3313af34dc95431c039890ddda1cb",
        20870,
        "tasks",
    ),
    SourceFile(
        "mtrag-human/retrieval_tasks/cloud/cloud_questions.jsonl",
        "8c38d26821b2ef81de4b8fc9d1683391c063394a46bc7cd949bfa1b09ea1498e",
        58395,
        "tasks",
    ),
    SourceFile(
        "mtrag-human/retrieval_tasks/cloud/cloud_rewrite.jsonl",
        "f999821b4179bd900a8c06fcf849a895f2a1eb56adb6ae10b5bc95bb468c6a4c",
        22896,
        "tasks",
    ),
    SourceFile(
        "mtrag-human/retrieval_tasks/cloud/qrels/dev.tsv",
        "925635635bf0e60b20d8ea0b18160cff878897acf8e0bf54e7096cc0ade8bd3b",
        30951,
        "tasks",
    ),
    SourceFile(
        "mtrag-human/retrieval_tasks/fiqa/fiqa_lastturn.jsonl",
        "c491ac98e0ae1bc9f5db26e42fdcbb815ef7111b1fcf26794a7481d6c19ee2e6",
        20220,
        "tasks",
    ),
    SourceFile(
        "mtrag-human/retrieval_tasks/fiqa/fiqa_questions.jsonl",
        "d9a883e115e4412738f4ea01ce961e77cecc9b85039e6d351cd67d7e4e75fb8d",
        56288,
        "tasks",
    ),
    SourceFile(
        "mtrag-human/retrieval_tasks/fiqa/fiqa_rewrite.jsonl",
        "88706f60953539e3927b05e3e6c20b39e4d9211df9247cd7de4035ae50ac5f15",
        22207,
        "tasks",
    ),
    SourceFile(
        "mtrag-human/retrieval_tasks/fiqa/qrels/dev.tsv",
        "a10ec0b5cba634d6c4ad02dd86de715a258ebd313dbcf5fa2d0a77bb0e121abc",
        28598,
        "tasks",
    ),
    SourceFile(
        "mtrag-human/retrieval_tasks/govt/govt_lastturn.jsonl",
        "d24b26f4488f3416a84db8bb150b01095d0894b4274e3750f193ab4c38b09a75",
        22682,
        "tasks",
    ),
    SourceFile(
        "mtrag-human/retrieval_tasks/govt/govt_questions.jsonl",
        "29a956a20878d03d62d95108c6c51f7b27a2864a63acb7b066c48f6e8ad7e67f",
        64633,
        "tasks",
    ),
    SourceFile(
        "mtrag-human/retrieval_tasks/govt/govt_rewrite.jsonl",
        "d84cf9f1598875a5cd28616a6648155948072c27363a31c85a51050cf4078835",
        25031,
        "tasks",
    ),
    SourceFile(
        "mtrag-human/retrieval_tasks/govt/qrels/dev.tsv",
        "46acb9b882297b6ff68978a56fd4ec57ea1c340cd604c62787a9ad69ac880d34",
        34901,
        "tasks",
    ),
    SourceFile(
        "mtrag-human/evaluations/reference_subset_with_human_evaluations.json",
        "ba8518617eca8dd31cadfcbbec1e3b38464e3c6cea33d902865e4acd05e8673e",
        2190566,
        "evaluations",
    ),
    SourceFile("corpora/passage_level/clapnq.jsonl.zip", None, None, "corpora"),
    SourceFile("corpora/passage_level/cloud.jsonl.zip", None, None, "corpora"),
    SourceFile("corpora/passage_level/fiqa.jsonl.zip", None, None, "corpora"),
    SourceFile("corpora/passage_level/govt.jsonl.zip", None, None, "corpora"),
    SourceFile(
        "scripts/evaluation/judge_utils.py",
        "222bd11dc06fcf63144aa09a23ecd7ce8ef2f2bab90bf2943ecabc3e4fd23669",
        12388,
        "judge_prompts",
    ),
    SourceFile(
        "scripts/evaluation/underspecified_eval.py",
        "bc8fdbf6e5bfcfc25afd0ab3faa8de0258cbf4b6a77f22c86b40032f68aa1127",
        2028,
        "judge_prompts",
    ),
    SourceFile(
        "mtragun-human/generation_tasks/reference.jsonl",
        "68053f709c928570718fd2c88455eccf974746f5bfa2206d7fd39b969acb21d4",
        3836136,
        "mtrag_un",
    ),
    SourceFile(
        "mtragun-human/retrieval_tasks/qrels/clapnq.tsv",
        "880a583ceaaea10f55eafa02f1a3964a12d48ec06fe396861277dedd2c5c892c",
        12161,
        "mtrag_un",
    ),
    SourceFile(
        "mtragun-human/retrieval_tasks/qrels/cloud.tsv",
        "4c9e5903b0c1a702ade78f3f3bb826712614d31095f40c91121a214de6d248bf",
        15719,
        "mtrag_un",
    ),
    SourceFile(
        "mtragun-human/retrieval_tasks/qrels/fiqa.tsv",
        "8a224221b72f4b93b5c068be5f7cfff668d50ecf6ec4971ef22f2f183ef54c21",
        8468,
        "mtrag_un",
    ),
    SourceFile(
        "mtragun-human/retrieval_tasks/qrels/govt.tsv",
        "59903b16cbd28bd62910b1cde7dc325320a989f02f50c150c7a4ef3e96bdc691",
        17453,
        "mtrag_un",
    ),
)

MTRAG_SOURCE = Source(
    name="mtrag",
    folder="mt-rag-benchmark",
    marker="mtrag-human",
    repository="https://github.com/IBM/mt-rag-benchmark",
    commit=_COMMIT,
    base_url=f"https://raw.githubusercontent.com/IBM/mt-rag-benchmark/{_COMMIT}/",
    files=_FILES,
)
"""Groups: `tasks` (generation tasks, conversations, retrieval tasks with qrels), `evaluations` (human evaluation),
`corpora` (passage level), `judge_prompts` (the scripts that hold them, read and never run), `mtrag_un`."""

MTRAG_UN_SOURCE = replace(
    MTRAG_SOURCE,
    name="mtrag_un",
    marker="mtragun-human",
    # `tasks` is what `ragtasks fetch mtrag_un` fetches unasked.
    files=tuple(replace(file, group="tasks") for file in MTRAG_SOURCE.in_groups(["mtrag_un"])),
)
"""MTRAG-UN alone: the same repository, commit and folder, so that either benchmark's fetch serves both."""

__all__ = ["MTRAG_SOURCE", "MTRAG_UN_SOURCE"]
