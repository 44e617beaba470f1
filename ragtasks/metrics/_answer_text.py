"""Extraction of the answer from a reply: thoughts, chat templates, HTML and escapes are removed.

Only replies that clearly match one of these forms are changed. Any other text stays byte for byte, and the plausibility
checks report it.
"""

from __future__ import annotations

import html
import json
import re

from ragtasks.thoughts import MENTION, split_thought

_BAR = "\uff5c"  # DeepSeek's markers use the fullwidth vertical bar
_PROMPT = re.compile(
    r"\s*(?:(?:<s>|<bos>|<\|begin_of_text\|>|<BOS_TOKEN>)\s*)*(?:\[INST\]|<\|(?:system|user|START_OF_TURN_TOKEN)\|>"
    r"|<(?:\|(?:im_start|start_header_id|start|turn)\|?|start_of_turn)>(?:system|developer|user)\b|(?:system|user)\n"
    rf"|<{_BAR}User{_BAR}>)"
)
_REPLY = re.compile(
    r"<(?:\|(?:im_start|start_header_id|turn)\|?|start_of_turn)>(?:assistant|model)(?:<\|end_header_id\|>|\s)|\nassistant\n"
    rf"|<\|(?:assistant|CHATBOT_TOKEN)\|>|\[/INST\]|<\|start\|>assistant(?=<\|channel)|<{_BAR}Assistant{_BAR}>"
)
_END_OF_TURN = re.compile(
    r"\s*(?:</s>|<end_of_turn>|<turn\|>|<\|(?:im_end|eot_id|end|return|endoftext|END_OF_TURN_TOKEN)\|>"
    rf"|<{_BAR}end▁of▁sentence{_BAR}>)\s*\Z"
)
_TAG = re.compile(
    r"<(?P<end>/?)(?:(?P<void>br|hr|img)|(?P<block>p|div|[uo]l|li|h[1-6]|table|thead|tbody|tr|t[hd]|d[ldt]|blockquote|pre"
    r"|section|article|main|header|footer|body)|a|b|i|u|s|em|strong|code|del|font|kbd|mark|small|span|su[bp])"
    r"(?:\s[^<>]*|/)?>",
    re.IGNORECASE,
)
_ABOUT_HTML = re.compile(rf"`|\b(?:html|css|markup)\b|\A\s*<\w+>{MENTION}", re.IGNORECASE)
_ABOUT_ENTITIES = re.compile(r"\b(?:xml|tags?|ampersands?|entit(?:y|ies)|escap\w+)\b", re.IGNORECASE)
_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[\da-f]{1,6}|[a-z]\w{1,30});", re.IGNORECASE)
_MARKUP = re.compile(r"[<&]\w|<[/!]|&\s")
_ESCAPE = re.compile(r"\\(?:[nrt\"'\\/]|u[\da-fA-F]{4})")
_SURE_ESCAPE = re.compile(r"[.!?:;,)\]*](?:\\r)?\\n(?![a-z])|\\n(?:\\n|[-*•#]|\d+[.)])")
_KEEPS_ESCAPES = re.compile(  # JSON, printed values, code, paths, and texts about escapes
    r"\A\s*(?:[\[{\"']|b['\"]|data:|\w+[=(])|`|\b[a-z]:\\|\\[nt][\"']"
    r"|\b(?:new ?lines?|line ?(?:break|feed)s?|escap\w+|regex\w*|backslash\w*)\b",
    re.IGNORECASE,
)


def answer_text(text: str, end_of_thinking: str) -> str:
    """Return the answer in a model's reply.

    A reply that needs no change is returned unchanged, leading and trailing whitespace included. A reply whose thought
    never ends (cut off by the token limit) has no answer: the result is "", which counts as an empty response.

    Args:
        text: the model's reply.
        end_of_thinking: the marker that ends a thought. The usual marker, `</think>`, also accepts the other common
            markers.
    """
    text = _without_prompt(_without_html(_without_escapes(text)))
    return _without_html(split_thought(text, end_of_thinking)[1])


def _without_prompt(text: str) -> str:
    """Return the last reply of a conversation that contains the markers of a chat template, or the text unchanged."""
    replies = list(_REPLY.finditer(text)) if _PROMPT.match(text) else []
    return _END_OF_TURN.sub("", text[replies[-1].end() :]).strip() if replies else text


def _without_html(text: str) -> str:
    """Return the plain text of a reply that is completely HTML, or in which every `&` begins an entity."""
    if not ("&" in text or text.lstrip().startswith("<")) or _ABOUT_HTML.search(text):
        return text
    plain = _without_tags(text.strip())
    if plain is None and (_ABOUT_ENTITIES.search(text) or _MARKUP.search(_ENTITY.sub("", text))):
        return text
    return html.unescape(text if plain is None else plain).replace("\xa0", " ")


def _without_tags(text: str) -> str | None:
    """Return the text between tags, one line for each block; None unless the complete text is HTML."""
    parts, end, depth = [], 0, 0
    for tag in _TAG.finditer(text):
        before = text[end : tag.start()]
        if "<" in before or (before.strip() and not depth):
            return None
        parts += [before, "\n" if tag["block"] or tag["void"] else ""]
        end, depth = tag.end(), depth + (0 if tag["void"] else -1 if tag["end"] else 1)
    return re.sub(r"\s*\n\s*", "\n", "".join(parts)).strip() if 0 < end == len(text) and not depth else None


def _without_escapes(text: str) -> str:
    r"""Decode `\n`, `\t` and `\"` in a one-line text that is clearly escaped, and is neither code nor a path."""
    is_sure = "\n" not in text.strip() and _SURE_ESCAPE.search(text) and not _KEEPS_ESCAPES.search(text)
    if not is_sure or "\\" in _ESCAPE.sub("", text):
        return text
    decoded = _ESCAPE.sub(lambda match: json.loads(f'"{match[0]}"') if match[0] != r"\'" else "'", text)
    return decoded.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # joins surrogates
