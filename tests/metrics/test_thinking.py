"""What surrounds an answer never reaches a metric, and an answer that speaks of marks and tags is not changed."""

# ruff: noqa: E501

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtasks.metrics import answer_text

END = "</think>"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("plain", "plain"),
        ("  plain\n", "  plain\n"),
        (" \n", " \n"),
        ("", ""),
        ("<think>a</think>b", "b"),
        ("a</think>\n\nb ", "b"),  # the opening was part of the prompt
        ("<think>a</think>", ""),
        ("<think>cut off in the middle", ""),
        ("\n <think>cut off", ""),
        ("<thinking>cut off", ""),
        ("a</think><think>a second thought, cut off", ""),
    ],
)
def test_the_answer_begins_after_the_last_thought(text: str, answer: str) -> None:
    assert answer_text(text, END) == answer


FORMS = [
    "<think>THOUGHT</think>ANSWER",
    "<think>\nTHOUGHT\n</think>\n\nANSWER",
    "THOUGHT\n</think>\n\nANSWER",
    "THOUGHT</think>ANSWER",
    "THOUGHT </think> ANSWER",
    "<|START_THINKING|>THOUGHT<|END_THINKING|><|START_RESPONSE|>ANSWER<|END_RESPONSE|>",
    "◁think▷THOUGHT◁/think▷ANSWER",
    "<seed:think>THOUGHT</seed:think>ANSWER",
    "[THINK]THOUGHT[/THINK]ANSWER",
    "<reasoning>THOUGHT</reasoning>\nANSWER",
    "<reasoning>THOUGHT</reasoning><answer>ANSWER</answer>",
    "<thinking>THOUGHT</thinking>\n\nANSWER",
    "<thought>THOUGHT</thought>ANSWER",
    "<|begin_of_thought|>THOUGHT<|end_of_thought|>\n\n<|begin_of_solution|>ANSWER<|end_of_solution|>",
    "<think>THOUGHT</think>\n<response>\nANSWER\n</response>",
    "Here is my thought process: THOUGHT Here is my response: ANSWER",
    "<|channel|>analysis<|message|>THOUGHT<|end|><|start|>assistant<|channel|>final<|message|>ANSWER<|return|>",
    "<|channel|>final<|message|>ANSWER",
    "Thinking...\nTHOUGHT\n...done thinking.\n\nANSWER",
    '<details type="reasoning" done="true" duration="3">\n<summary>Thought for 3 seconds</summary>\n> THOUGHT\n</details>\nANSWER',
    "Thought: THOUGHT\nAction: search\nAction Input: library\nObservation: x\nThought: I now know the final answer\nFinal Answer: ANSWER",
    "<longcat_think>THOUGHT</longcat_think>ANSWER",
    "<|inner_prefix|>THOUGHT<|inner_suffix|>ANSWER",
    "<|channel>thought\nTHOUGHT<channel|>ANSWER",
    "<|think:start|>THOUGHT<|think:end|>ANSWER",
    "THOUGHT<|think:end|>ANSWER",
    "Let me check.\n<think>THOUGHT</think>\nANSWER",
    "ANSWER\n<think>THOUGHT</think>",
    "<Thinking>THOUGHT</Thinking>ANSWER",
    "<THINK>THOUGHT</THINK>ANSWER",
    "</think>\n\nANSWER",
    "<think>\n\n</think>\n\nANSWER",
    "THOUGHT[/THINK]ANSWER",
    "<thinking>\nI should write `</thinking>` at the end.\n</thinking>\nANSWER",
    "<think>THOUGHT The tag is </think>, they say.\n</think>\nANSWER",
    "<analysis>THOUGHT</analysis>\n\nANSWER",
    "<scratchpad>THOUGHT</scratchpad>ANSWER",
    "&lt;think&gt;THOUGHT&lt;/think&gt;ANSWER",
    "<think>THOUGHT\\n</think>\\n\\nANSWER",
    "<|im_start|>system\nYou are helpful.<|im_end|>\n<|im_start|>user\nWhen?<|im_end|>\n<|im_start|>assistant\nANSWER<|im_end|>",
    "system\nYou are helpful.\nuser\nWhen?\nassistant\nANSWER",
    "<s>[INST] <<SYS>>\nBe kind.\n<</SYS>>\n\nWhen? [/INST] ANSWER</s>",
    "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nWhen?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nANSWER<|eot_id|>",
    "<bos><start_of_turn>user\nWhen?<end_of_turn>\n<start_of_turn>model\nANSWER<end_of_turn>",
    "<|im_start|>user\nWhen?<|im_end|>\n<|im_start|>assistant\n<think>\nTHOUGHT\n</think>\n\nANSWER",
    "<|system|>\nBe kind.<|end|>\n<|user|>\nWhen?<|end|>\n<|assistant|>\nANSWER<|end|>",
    "<p>ANSWER</p>",
    "<p>The library opens at <b>nine</b> on weekdays.</p>",
    '<div class="a"><p>ANSWER</p></div>',
    "<think>THOUGHT\n```\n<think>\n```\n</think>\nANSWER",
    "<think>THOUGHT</think>\n[THINK]THOUGHT[/THINK]ANSWER",
    "<reason>x y</reason>ANSWER",
    "<cot>x</cot>ANSWER",
    "<inner_monologue>x</inner_monologue>ANSWER",
    "<|thinking|>x<|/thinking|>ANSWER",
    "<ant_thinking>x</ant_thinking>ANSWER",
    "[REASONING]x[/REASONING]ANSWER",
    "<think >x</think >ANSWER",
    "<think>x</thinking>ANSWER",
    "<details>\n<summary>Thinking</summary>\nx\n</details>\nANSWER",
]
"""Replies with a THOUGHT and an ANSWER in their places."""


@pytest.mark.parametrize("form", FORMS)
def test_thoughts_and_prompts_around_an_answer_are_left_out(form: str) -> None:
    answer = "The library opens at nine on weekdays."
    reply = form.replace("THOUGHT", "They ask about the library of the town.").replace("ANSWER", answer)
    assert answer_text(reply, END) == answer


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("<think>They ask.", ""),
        ("[THINK]They ask.", ""),
        ("<|START_THINKING|>They ask.", ""),
        ("<think>They ask.</think>", ""),
        ("It&#39;s open &amp; free; &quot;yes&quot;.", 'It\'s open & free; "yes".'),
        ("<ul><li>One</li><li>Two</li></ul>", "One\nTwo"),
        ("<p>Johnson &amp; Johnson</p>\n<p>AT&amp;T<br>x</p>", "Johnson & Johnson\nAT&T\nx"),
        ("&lt;p&gt;The library opens.&lt;/p&gt;", "The library opens."),
        ("Johnson &amp; Johnson sells it.", "Johnson & Johnson sells it."),
        ("caf&eacute;&nbsp;noir", "café noir"),
        ("It opens at nine.\\n\\nIt closes at five.\\n- Monday", "It opens at nine.\n\nIt closes at five.\n- Monday"),
        ('She says \\"yes\\".\\nIt is caf\\u00e9.', 'She says "yes".\nIt is café.'),
        ("One:\\n1. A\\n2. B", "One:\n1. A\n2. B"),
        ("A \\ud83d\\ude00.\\nB", "A 😀.\nB"),
        (
            '<think>"Library", they say.</think>"The library opens at nine on weekdays."',
            '"The library opens at nine on weekdays."',
        ),
        (
            "<think>They ask.</think>**Answer:** The library opens at nine on weekdays.",
            "**Answer:** The library opens at nine on weekdays.",
        ),
        ('<think>They ask about "hours"</think>"Hours" it is.', '"Hours" it is.'),
        ("<think>a</think>b<think>c</think>d", "d"),
        ("<think>a</think>b<think>c</think>", "b"),
        ("a</think><think>a second thought, cut off", ""),
        (
            "<think>They ask.</think>\n\nPut it between <think> and </think> tags.",
            "Put it between <think> and </think> tags.",
        ),
        ("The user asks about <think> tags.\nI explain.\n</think>\n\nUse `<think>`.", "Use `<think>`."),
        (
            "<think>They ask.</think>\nModels write:\n<think>\nx\n</think>\nThe answer.",
            "Models write:\n<think>\nx\n</think>\nThe answer.",
        ),
        ("<p></p>", ""),
    ],
)
def test_html_and_escapes_around_an_answer_are_left_out(reply: str, answer: str) -> None:
    assert answer_text(reply, END) == answer


@pytest.mark.parametrize(
    "reply",
    [
        "Put the reasoning between <think> and </think> tags, then write the answer on a line of its own.",
        "The thought ends with </think> and the answer follows.",
        "Use `<think>` and `</think>`.",
        "<think> and </think> mark the reasoning.",
        "<think> tags hold the reasoning of the model.",
        "How do I write <think> in HTML?",
        "The end mark is </think>.",
        "Models write:\n<think>\nLet me see.\n</think>\nThe answer.",
        "For example:\n```\n<think>\nLet me see.\n</think>\nThe answer\n```\nis a reply.",
        "Cohere uses <|START_THINKING|> and <|END_THINKING|> around it.",
        "[THINK] and [/THINK] are Mistral's marks.",
        'Close the thought with "</think>" first.',
        "The tags <think></think> hold it.",
        "The closing tag (</think>) comes last.",
        "[Thinking] is a chapter.",
        "Thought: a process of the mind.",
        "Here is my thought process: I add both numbers.",
        "Use <div> to group elements.",
        "<div> is a container element.",
        "<div> groups elements, and it is closed by </div>",
        "Write <p>Hello</p> to make a paragraph.",
        "Use &quot; for quotation marks in HTML.",
        "Write &amp; for an ampersand.",
        "The tag `<b>` makes text bold.",
        "<b>Note</b> that it opens at <b>nine</b>.",
        "In HTML, <p>Hello</p>",
        "Use `&amp;` here.",
        "x < 5 && y > 3 &amp; z",
        "AT&T is written AT&amp;T in a page.",
        "C:\\new\\table is the folder.",
        "The file is in C:\\temp.\\nothing",
        "Use \\n to start a new line.",
        'print("Hello!\\n");',
        "The regex \\d+\\n matches.",
        "$\\nabla f \\neq 0$",
        "A path such as docs\\new.txt.\\notes",
        "It opens.\nIt says \\n.\\n- x",
        "assistant\n\nThe library.",
        "user\n\nThe library.",
        "[INST] is Llama's mark.",
        "system\nThe library has one.",
        "<|user|> How long? Three weeks.",
        "<answer>It is so.</answer>",
        "I <3 Paris & London",
        "if a<b and c>d then e",
        "<name> must be replaced by your name.",
        "Replace <name>.",
        "<cluster_name>\n</cluster_name>",
        "\\\\server\\share.\\new",
        "Fish &chips; good",
        "a thought\n",
        "  plain\n",
        "Select Menu > Tools &gt; Options <here>.",
        "Run `ibmcloud ce app create --name &lt;name&gt;`.",
        "A thought comes first. </think> is the mark of its end.",
        "</think>, a mark, ends the thought.",
    ],
)
def test_an_answer_about_marks_tags_or_escapes_stays_byte_for_byte(reply: str) -> None:
    assert answer_text(reply, END) == reply


def test_another_marker_can_be_named() -> None:
    assert answer_text("thought<|answer|> yes </think>", "<|answer|>") == "yes </think>"


@settings(derandomize=True, database=None, deadline=None)
@given(st.text(), st.text(st.characters(exclude_characters="<")))
def test_a_thought_leaves_no_trace(thought: str, answer: str) -> None:
    assert answer_text(f"<think>{thought}{END}{answer}", END) == answer.strip()
