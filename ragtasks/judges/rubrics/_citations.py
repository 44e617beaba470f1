"""What judges are asked about citations: how far the first passage that a sentence cites supports it.

One sentence and one passage at a time, as the track's judges saw them. Where a judge gives no readable reply to one of
an answer's pairs, it has no verdict on that answer.

Source: arXiv 2504.15205, section 3 (TREC RAG 2024). The wording is ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from ragtasks.judges._parsers import read_coded_label
from ragtasks.judges._question import Finding, Question, Rubric, ask
from ragtasks.judges._verdicts import VerdictOutcome
from ragtasks.metrics import CitedSentence, parse_cited, support_precision
from ragtasks.records import Passage, Response, Support
from ragtasks.templates import PromptTemplate, shipped_template

CITATION_SUPPORT = "citation_support"

NOTHING_CITED = Finding(None, None, VerdictOutcome.NOT_ASKED, "no sentence cites a passage")
"""For an answer that needs no judge: its recall is 0, its precision is not defined."""

_LABEL_FORM = "Verdict CODE: LABEL"


Sentences = Callable[[Response], Sequence[CitedSentence]]
"""What a response says and cites."""


def sentences_of(response: Response) -> tuple[CitedSentence, ...]:
    """Return the sentences of a free text, which cites the passages that the model was shown."""
    return parse_cited(response.text, len(response.passages))


def citation_support(template: PromptTemplate | None = None, sentences: Sentences = sentences_of) -> Rubric:
    """Return the rubric `citation_support`: how far each sentence's first citation supports it.

    The label is a JSON list with one item a sentence: full, partial, no, or null where the sentence does not cite. The
    value is the weighted precision, 0 to 1, higher is better. An answer that cites nothing is not asked about.

    Args:
        template: the prompt; default: the shipped one.
        sentences: how a response is taken apart; citations are positions in its passages.
    """
    prompt = template or shipped_template("judges/citation_support")

    def open_(response: Response) -> Question | Finding:
        cited = sentences(response)
        if not any(sentence.citations for sentence in cited):
            return NOTHING_CITED
        return _judge(prompt, cited, response.passages, [])

    return Rubric(
        CITATION_SUPPORT, "how far each sentence's first citation supports it, judged", open_, (prompt.source,)
    )


def _judge(
    prompt: PromptTemplate,
    sentences: Sequence[CitedSentence],
    passages: Sequence[Passage],
    done: list[Support | None],
) -> Question | Finding:
    """Return the question on the next sentence that cites, or the finding after the last."""
    rest = sentences[len(done) :]
    n_uncited = next((n for n, sentence in enumerate(rest) if sentence.citations), len(rest))
    done = [*done, *[None] * n_uncited]
    if len(done) == len(sentences):
        cites = [bool(sentence.citations) for sentence in sentences]
        label = json.dumps([level.value if level else None for level in done])
        return Finding(label, support_precision(cites, done).value)
    cited = passages[sentences[len(done)].citations[0]]

    def read(reply: str, code: str) -> Question | Finding:
        level = Support(read_coded_label(reply, code, [item.value for item in Support]))
        return _judge(prompt, sentences, passages, [*done, level])

    shown = f"{cited.title}\n{cited.text}".strip()
    return ask(prompt, _LABEL_FORM, read, passage=shown, sentence=sentences[len(done)].text)


__all__ = ["CITATION_SUPPORT", "NOTHING_CITED", "Sentences", "citation_support", "sentences_of"]
