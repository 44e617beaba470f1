"""Pure functions from responses and verdicts to scores, one family a file."""

from ragtasks.metrics._agreement import (
    Level,
    RaterAgreement,
    cohen_kappa,
    inverse_frequency,
    krippendorff_alpha,
    pairwise_spearman,
    rater_agreement,
    spearman,
    spearman_repeated,
)
from ragtasks.metrics._answerability import NO_VERDICT, IdkDetector, IdkLabel, RuleBasedIdk, answerability_accuracy
from ragtasks.metrics._answers import METRICS, IbmJudged, Judged, Semantics, score_responses
from ragtasks.metrics._citations import (
    SUPPORT_SCORES,
    citation_validity,
    cited_share,
    support_precision,
    support_recall,
    support_scores,
)
from ragtasks.metrics._cited_answer import CitedSentence, n_words, parse_cited, within
from ragtasks.metrics._conditioning import LEFT_OUT, condition_paper, ibm_visible_answerability
from ragtasks.metrics._extractiveness import extractiveness
from ragtasks.metrics._generation import corpus_bleu, sentence_bleu, token_f1
from ragtasks.metrics._judged_run import JudgedRun
from ragtasks.metrics._lexical import rouge_l
from ragtasks.metrics._meteor import meteor
from ragtasks.metrics._metric import COUNT, PERCENT, RESCALED, Metric, Pair, Scores
from ragtasks.metrics._multihop import accuracy, accuracy_official, null_accuracy
from ragtasks.metrics._multihop_retrieval import DEPTH, EVIDENCE_METRICS, mean_evidence_scores
from ragtasks.metrics._nuggets import NUGGET_SCORES, nugget_scores, nugget_scores_official
from ragtasks.metrics._ranking import RANKED_BY, ranking_score
from ragtasks.metrics._retrieval import (
    CUTOFFS,
    IBM_METRICS,
    RETRIEVAL_METRICS,
    RetrievalMetric,
    RunScores,
    by_query,
    retrieval_metric,
    score_run,
    score_run_ibm,
)
from ragtasks.metrics._rewriting import (
    QUERY_METRICS,
    Search,
    Searched,
    is_changed,
    length_ratio,
    n_query_words,
    query_scores,
)
from ragtasks.metrics._semantic import (
    BertScorer,
    SemanticScore,
    check_device,
    check_encoder,
    resolve_encoder,
    semantic_scores,
)
from ragtasks.metrics._sentences import sentence_ends
from ragtasks.metrics._thinking import answer_text

__all__ = [
    "COUNT",
    "CUTOFFS",
    "DEPTH",
    "EVIDENCE_METRICS",
    "IBM_METRICS",
    "LEFT_OUT",
    "METRICS",
    "NO_VERDICT",
    "NUGGET_SCORES",
    "PERCENT",
    "QUERY_METRICS",
    "RANKED_BY",
    "RESCALED",
    "RETRIEVAL_METRICS",
    "SUPPORT_SCORES",
    "BertScorer",
    "CitedSentence",
    "IbmJudged",
    "IdkDetector",
    "IdkLabel",
    "Judged",
    "JudgedRun",
    "Level",
    "Metric",
    "Pair",
    "RaterAgreement",
    "RetrievalMetric",
    "RuleBasedIdk",
    "RunScores",
    "Scores",
    "Search",
    "Searched",
    "SemanticScore",
    "Semantics",
    "accuracy",
    "accuracy_official",
    "answer_text",
    "answerability_accuracy",
    "by_query",
    "check_device",
    "check_encoder",
    "citation_validity",
    "cited_share",
    "cohen_kappa",
    "condition_paper",
    "corpus_bleu",
    "extractiveness",
    "ibm_visible_answerability",
    "inverse_frequency",
    "is_changed",
    "krippendorff_alpha",
    "length_ratio",
    "mean_evidence_scores",
    "meteor",
    "n_query_words",
    "n_words",
    "nugget_scores",
    "nugget_scores_official",
    "null_accuracy",
    "pairwise_spearman",
    "parse_cited",
    "query_scores",
    "ranking_score",
    "rater_agreement",
    "resolve_encoder",
    "retrieval_metric",
    "rouge_l",
    "score_responses",
    "score_run",
    "score_run_ibm",
    "semantic_scores",
    "sentence_bleu",
    "sentence_ends",
    "spearman",
    "spearman_repeated",
    "support_precision",
    "support_recall",
    "support_scores",
    "token_f1",
    "within",
]
