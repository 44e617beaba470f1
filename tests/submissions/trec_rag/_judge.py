"""A judge for TREC RAG's prompts that counts words, so that its verdicts can be computed again."""

from __future__ import annotations

import json
import re

_WORD = re.compile(r"[a-z0-9]+")


def parts_of(prompt: str) -> tuple[str, dict[str, str]]:
    """Return the code of a prompt and its marked parts by name."""
    code = re.findall(r"the code ([0-9a-f]{8})\b", prompt)[0]
    parts = re.findall(rf"^\[{code} (?!end\])([^\]]+)\]\n(.*?)\n?\[{code} end\]$", prompt, re.DOTALL | re.MULTILINE)
    return code, dict(parts)


def overlap(text: str, other_text: str) -> float:
    """Return the share of a text's words that occur in another text."""
    words = set(_WORD.findall(text.lower()))
    return len(words & set(_WORD.findall(other_text.lower()))) / len(words) if words else 0.0


def listed(text: str) -> list[str]:
    return [line.partition(". ")[2] for line in text.splitlines() if line[:1].isdigit()]


def grade(text: str, other_text: str, high: str, middle: str, low: str) -> str:
    share = overlap(text, other_text)
    return high if share > 0.8 else middle if share > 0.4 else low


def verdict(prompt: str) -> str:
    """Return a reply in the form that the prompt requests."""
    code, parts = parts_of(prompt)
    if "cited passage" in parts:
        return f"Verdict {code}: {grade(parts['sentence'], parts['cited passage'], 'full', 'partial', 'no')}"
    if "answer to be searched" in parts:
        answer = parts["answer to be searched"]
        grades = [grade(fact, answer, "support", "partial_support", "not_support") for fact in listed(parts["facts"])]
        return json.dumps({"id": code, "grades": {str(n): grade_of_fact for n, grade_of_fact in enumerate(grades, 1)}})
    if "facts to be weighed" in parts:
        facts = listed(parts["facts to be weighed"])
        return json.dumps(
            {"id": code, "importance": {str(n): "vital" if n % 2 else "okay" for n in range(1, len(facts) + 1)}}
        )
    fresh = [text.split(". ")[0] for name, text in parts.items() if name.startswith("passage ")]
    return json.dumps({"id": code, "nuggets": [*listed(parts["facts so far"]), *fresh]})
