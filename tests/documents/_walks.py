"""How each document is walked: what the reader has before, what takes the place of names, and what is not run, and why.

A command runs as it stands, with `RAGTASKS_DATA` naming the sample in the place of fetched files, and a server
on this machine in that of every other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

EVALUATED = "cp -r $EVALUATIONS results"
"""Two baselines in the three settings of MTRAG, as `ragtasks run` saved them."""
QRELS = "data/mtrag-human/retrieval_tasks/clapnq/qrels/dev.tsv"
NETWORK = "needs the network"
MEASURED = "measures something for minutes; CI does not repeat it"
REAL = "needs official files that are not public or not small"
FRAGMENT = "a part of a command, shown whole elsewhere"


@dataclass(frozen=True)
class Walk:
    """What is said about one document.

    Attributes:
        extras: what is installed before the first install line, such as by `make run`.
        before: commands of a shell that make what the text takes for granted.
        data: the sample that stands for the fetched files.
        changes: pattern -> what takes its place, in the order given, before those of every document.
        left_out: pattern -> why a command that it matches is not run.
        fails: commands that the text shows failing, once each.
    """

    extras: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    data: str = "mtrag"
    changes: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    fails: tuple[str, ...] = ()


EVERYWHERE = {
    r"http://localhost:80\d\d|https://rag\.example\.org": "$SERVER",
    r"\b8010\b": "$PORT",
    r"openai/(gpt-4o(-mini)?)": r"\1,base_url=$SERVER/v1",
    r"pretrained=Qwen/[\w.-]+": "pretrained=$TINY_MODEL",
    r"BAAI/bge-base-en-v1\.5": "minilm",
    r"ragtasks run(?= )(?! --for-submission)": "ragtasks run --limit 2",
    r"(?<!--for-submission C )--tasks mtrag(_full_rag)?(?= |$)": "--tasks mtrag_full_rag_fiqa",
    r"(?<= serve) ": " --port 0 ",
    r"--port 8765": "--port 0",
}
"""What is changed in every document: addresses, models of the hub, the number of tasks."""

LEFT_OUT_EVERYWHERE = {
    r"^ragtasks data fetch\b": NETWORK,
    r"^python (-m )?perf\b": MEASURED,
    r"--model vllm\b": "needs vLLM; tests/harness/test_vllm.py walks it on a stand-in, `make vllm-test` on vLLM",
    r"milvus:|--encode-with ray": "starts Milvus or Ray, or needs their servers; `make engine-test` has them",
}

ANSWERED = (
    "ragtasks tasks export --benchmark mtrag --setting full_rag --no-contexts --output asked.jsonl",
    "python examples/my_rag_system.py asked.jsonl | head -n 3 > answers.jsonl",
)
"""A file of answers, as some system of the reader's wrote it."""
OWN_ROWS = "grep '^{\"question\"' ${DOCUMENTS%/*}/score-your-system.md > rows.jsonl"
"""The rows that docs/score-your-system.md shows."""
OTHER_ROWS = (
    """echo '{"results": [{"vars": {"question": "Who?", "context": "Ada."}, "response": {"output": "Ada."}}]}'"""
    " > output.json"
)
"""A row under another tool's keys."""
NO_ENCODER = r"\g<0> --encoder none"
"""For a line that is there for something else than BERTScore, whose libraries take most of its time. README.md,
bring-your-own.md and score-your-system.md keep it.
"""
BASELINE = {r"(--model )?\.\.\.": "--model ragtasks-extractive", "--apply_chat_template ": ""}
"""What the dots of `ragtasks run ...` leave to the reader: a model."""
PLUGIN = "needs the example's package installed; tests/examples runs it"
TRAINED = "needs a synthesis or a training before it, minutes; tests/synthesis runs it on tiny models"

WALKS: dict[str, Walk] = {
    "README.md": Walk(
        extras=("semantic", "report"),
        before=(*ANSWERED, OWN_ROWS, "cp -r $EVALUATIONS results", "cp -r $EVALUATIONS/oracle results/sample"),
        changes={r"FILE\.trec": "data/runs/bm25_rewrite/clapnq.trec", r"\bQRELS\b": QRELS},
    ),
    "docs/agentic.md": Walk(changes={"ragtasks/benchmarks/sample": "${DOCUMENTS%/docs/*}/ragtasks/benchmarks/sample"}),
    "docs/arena.md": Walk(
        before=(EVALUATED,),
        changes={
            "--max-battles 500": "--max-battles 5",
            "ratings arena.sqlite": "ratings",  # nobody voted
        },
        left_out={
            "^ragtasks arena forms": "needs forms that people filled in; tests/arena runs it",
            "--until-decided": "needs answers of ten conversations; tests/arena runs it",
        },
    ),
    "docs/bring-your-own.md": Walk(
        changes={"((?:oracle|tasks custom_full_rag) .*)--encoder minilm": r"\1--encoder none"},
        fails=(
            "ragtasks check handbook",
            "ragtasks run --model ragtasks-extractive --tasks custom_full_rag --data handbook --run mine "
            "--encoder minilm",
        ),
    ),
    "docs/endpoints.md": Walk(
        before=("mkdir results; cp -r $EVALUATIONS/oracle results/a",), changes={"ragtasks score .*": NO_ENCODER}
    ),
    "docs/evaluate-a-model.md": Walk(
        changes={
            r"model=NAME": "model=m",
            r" \.\.\.$": " --tasks mtrag_reference_fiqa --encoder none --output_path results --log_samples",
            r"--model_args model=gpt-4o-mini": r"\g<0>,base_url=$SERVER/v1/chat/completions",
        },
        left_out={r"^lm_eval --": FRAGMENT},
    ),
    "docs/extending.md": Walk(left_out={r"ragtasks (run|report|retrieve)": PLUGIN}),
    "docs/gate.md": Walk(
        before=("mkdir results; cp -r $EVALUATIONS/oracle results/main; cp -r results/main results/new",),
        left_out={
            "--config evaluation.yaml": FRAGMENT,
            "strict-match": "needs results of another lm_eval task; tests/cli runs it",
        },
    ),
    "docs/index.md": Walk(changes={"ragtasks run .*": NO_ENCODER}),
    "docs/install.md": Walk(left_out={"show-completion": "finds the shell that it is called in, and a test has none"}),
    "docs/judges.md": Walk(
        before=("mkdir results; cp -r $EVALUATIONS/oracle results/a",),
        changes={
            "run \\.\\.\\.": "run --model ragtasks-extractive --tasks mtrag_reference_fiqa --encoder none",
        },
        left_out={
            r"RESULTS\.\.\.|^ragtasks report --full$": FRAGMENT,
            "^ragtasks compare": "asks a judge until it can tell; tests/scoring runs it",
            "judges calibrate": "asks a judge about labelled rows; tests/reports runs it",
            "arena forms|--ratings": "needs forms that people filled in; tests/arena and tests/reports run it",
            "judges anchors results": "needs answers of ten conversations; tests/judges runs it",
            "^ragtasks judges questions": "asks a judge about every question; tests/cli runs it on the samples",
        },
    ),
    "docs/live.md": Walk(
        before=("cp -r $EVALUATIONS/oracle results_gold", "cp -r $EVALUATIONS/refuse results_live"),
        changes={**BASELINE, "(mtrag_live_full_rag)(.*)": r"\1_fiqa\2 --encoder none"},
        left_out={
            "^lm_eval": "needs `ragtasks tasks link`; tests/harness runs the stock command",
            "--retriever$": FRAGMENT,
        },
    ),
    "docs/grounding.md": Walk(before=(EVALUATED,), changes={"--kind invented": "--kind refused_known"}),
    "docs/reports.md": Walk(
        before=(EVALUATED,),
        changes={"--model my-model": "--model ragtasks-oracle", "results/a results/b": "results/oracle results/refuse"},
    ),
    "docs/background/architecture.md": Walk(left_out={r"scripts/house\.py": "reads the sources of a checkout"}),
    "docs/background/results.md": Walk(left_out={r"CHECKOUT|PIECE|nugget_assignment|results --full": REAL}),
    "docs/retrieval.md": Walk(
        before=(
            "cp data/runs/bm25_rewrite/clapnq.trec mine.trec; cp mine.trec FILE.trec",
            f"cp {QRELS} qrels.txt; cp {QRELS} qrels.rag24.test.txt",
            "ragtasks retrieve --retriever bm25 --queries rewrite",
            "ragtasks submit --task A --run bm25.rewrite --output task_a.jsonl",
        ),
        changes={"--tasks mtrag_full_rag --run .*": NO_ENCODER},
        left_out={
            "listwise:castorini": REAL,
            "text-embedding-3-small|bge-m3": "a server of embeddings: tests/retrieval_cache has one",
            "^ragtasks judges passages": "asks a judge thousands of times; tests/cli runs it on a few pairs",
        },
    ),
    "docs/scale.md": Walk(left_out={r"test=SHARDS": REAL}),
    "docs/score-your-system.md": Walk(
        before=(*ANSWERED, OWN_ROWS, OTHER_ROWS),
        changes={
            "ragtasks score (?=http|'{)": "ragtasks score --force --encoder none ",
            "ragtasks score (?=a)": r"\g<0>--force ",
            "--model ragtasks-endpoint .*": NO_ENCODER,
        },
        left_out={
            "score spans.jsonl": "needs the spans of a system; tests/cli has the SDK write some",
        },
    ),
    "docs/statistics.md": Walk(
        before=(EVALUATED,),
        changes={"results/ragtasks-oracle": "results/oracle", "results/ragtasks-extractive": "results/refuse"},
    ),
    "docs/synthesis.md": Walk(
        before=("mkdir handbook; cp $DOCUMENTS handbook",),
        changes={"--model MODEL": "--model ragtasks-extractive --encoder none"},
        left_out={
            "--judge NAME": FRAGMENT,
            r"^ragtasks (train|retrieve .*(rewriter|retriever))|news|bert-base|review results": TRAINED,
        },
    ),
    "docs/troubleshooting.md": Walk(
        extras=("retrieval",),
        before=(EVALUATED, "cp data/runs/bm25_rewrite/clapnq.trec mine.trec"),
        changes={r"\bQRELS\b": QRELS},
        left_out={"RESULTS|ADDRESS": FRAGMENT},
    ),
}

EXAMPLES = Walk(
    extras=("semantic", "retrieval", "report", "judge", "arena", "mcp"),
    before=(
        *ANSWERED,
        OWN_ROWS,
        "mkdir results handbook; cp -r $EVALUATIONS/oracle results/a; cp -r $EVALUATIONS/refuse results/b",
        "cp -r $EVALUATIONS/oracle results/old; cp -r $EVALUATIONS/oracle results/new; cp $DOCUMENTS handbook",
        """echo '{"_id": "p1", "title": "Rain", "text": "Rain fell."}' | tee corpus.jsonl > documents.jsonl""",
        "ragtasks retrieve --retriever bm25 --queries last_turn --name mine",
        "ragtasks retrieve --retriever bm25 --queries last_turn",
    ),
    changes={
        r"FILE\.trec": "data/runs/bm25_rewrite/clapnq.trec",
        r"\bQRELS\b": QRELS,
        "DOCUMENTS": "handbook",
        "ragtasks eval .*": r"\g<0> --set model.limit=2 --set options.encoder=none",
        "arena battle .*": r"\g<0> --max-battles 4",
        "score results .*": r"\g<0> --encoder none",
    },
    left_out={
        "mine.jsonl": "needs answers to every task of MTRAG-UN; tests/submissions runs both commands",
        "^ragtasks check handbook": "is about conversations, which the example before it did not make",
        "^ragtasks train (rewriter|retriever)": TRAINED,
        "^ragtasks review results": TRAINED,
        "^ragtasks arena forms": "needs forms that people filled in; tests/arena runs it",
        "^ragtasks judges": "asks a judge thousands of times, or about files that are not public",
        "^ragtasks tasks link|^lm_eval": "changes the lm_eval of this environment; tests/harness runs it",
    },
)
"""The examples of `--help`, in the order of its groups: one finds what the one before wrote."""
