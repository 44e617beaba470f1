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
        ("<think>a</think>b<think>c</think>d", "d"),
        ("<think>a</think>", ""),
        ("<think>cut off in the middle", ""),
        ("\n <think>cut off", ""),
        ("<thinking>cut off", ""),
        ("a</think><think>a second thought, cut off", ""),
        ("How do I write <think> in HTML?", "How do I write <think> in HTML?"),
    ],
)
def test_the_answer_begins_after_the_last_thought(text: str, answer: str) -> None:
    assert answer_text(text, END) == answer


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (
            "<think>They ask about the library of the town.</think>The library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "<think>\nThey ask about the library of the town.\n</think>\n\nThe library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "They ask about the library of the town.\n</think>\n\nThe library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "They ask about the library of the town.</think>The library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "They ask about the library of the town. </think> The library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "<|START_THINKING|>They ask about the library of the town.<|END_THINKING|><|START_RESPONSE|>The library opens at nine on weekdays.<|END_RESPONSE|>",
            "The library opens at nine on weekdays.",
        ),
        (
            "◁think▷They ask about the library of the town.◁/think▷The library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "<seed:think>They ask about the library of the town.</seed:think>The library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "[THINK]They ask about the library of the town.[/THINK]The library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "<reasoning>They ask about the library of the town.</reasoning>\nThe library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "<reasoning>They ask about the library of the town.</reasoning><answer>The library opens at nine on weekdays.</answer>",
            "The library opens at nine on weekdays.",
        ),
        (
            "<thinking>They ask about the library of the town.</thinking>\n\nThe library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "<thought>They ask about the library of the town.</thought>The library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "<|begin_of_thought|>They ask about the library of the town.<|end_of_thought|>\n\n<|begin_of_solution|>The library opens at nine on weekdays.<|end_of_solution|>",
            "The library opens at nine on weekdays.",
        ),
        (
            "<think>They ask about the library of the town.</think>\n<response>\nThe library opens at nine on weekdays.\n</response>",
            "The library opens at nine on weekdays.",
        ),
        (
            "Here is my thought process: They ask about the library of the town. Here is my response: The library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "<|channel|>analysis<|message|>They ask about the library of the town.<|end|><|start|>assistant<|channel|>final<|message|>The library opens at nine on weekdays.<|return|>",
            "The library opens at nine on weekdays.",
        ),
        ("<|channel|>final<|message|>The library opens at nine on weekdays.", "The library opens at nine on weekdays."),
        (
            "Thinking...\nThey ask about the library of the town.\n...done thinking.\n\nThe library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            '<details type="reasoning" done="true" duration="3">\n<summary>Thought for 3 seconds</summary>\n> They ask about the library of the town.\n</details>\nThe library opens at nine on weekdays.',
            "The library opens at nine on weekdays.",
        ),
        (
            "Thought: They ask about the library of the town.\nAction: search\nAction Input: library\nObservation: x\nThought: I now know the final answer\nFinal Answer: The library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "<longcat_think>They ask about the library of the town.</longcat_think>The library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "<|inner_prefix|>They ask about the library of the town.<|inner_suffix|>The library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "<|channel>thought\nThey ask about the library of the town.<channel|>The library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "<|think:start|>They ask about the library of the town.<|think:end|>The library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "They ask about the library of the town.<|think:end|>The library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "Let me check.\n<think>They ask about the library of the town.</think>\nThe library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "The library opens at nine on weekdays.\n<think>They ask about the library of the town.</think>",
            "The library opens at nine on weekdays.",
        ),
        (
            "<Thinking>They ask about the library of the town.</Thinking>The library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "<THINK>They ask about the library of the town.</THINK>The library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        ("</think>\n\nThe library opens at nine on weekdays.", "The library opens at nine on weekdays."),
        ("<think>\n\n</think>\n\nThe library opens at nine on weekdays.", "The library opens at nine on weekdays."),
        ("<think>They ask about the library of the town.", ""),
        ("[THINK]They ask about the library of the town.", ""),
        ("<|START_THINKING|>They ask about the library of the town.", ""),
        ("<think>They ask about the library of the town.</think>", ""),
        (
            "They ask about the library of the town.[/THINK]The library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "<thinking>\nI should write `</thinking>` at the end.\n</thinking>\nThe library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "<think>They ask about the library of the town. The tag is </think>, they say.\n</think>\nThe library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "<analysis>They ask about the library of the town.</analysis>\n\nThe library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "<scratchpad>They ask about the library of the town.</scratchpad>The library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "&lt;think&gt;They ask about the library of the town.&lt;/think&gt;The library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "<think>They ask about the library of the town.\\n</think>\\n\\nThe library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "<|im_start|>system\nYou are helpful.<|im_end|>\n<|im_start|>user\nWhen?<|im_end|>\n<|im_start|>assistant\nThe library opens at nine on weekdays.<|im_end|>",
            "The library opens at nine on weekdays.",
        ),
        (
            "system\nYou are helpful.\nuser\nWhen?\nassistant\nThe library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "<s>[INST] <<SYS>>\nBe kind.\n<</SYS>>\n\nWhen? [/INST] The library opens at nine on weekdays.</s>",
            "The library opens at nine on weekdays.",
        ),
        (
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nWhen?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nThe library opens at nine on weekdays.<|eot_id|>",
            "The library opens at nine on weekdays.",
        ),
        (
            "<bos><start_of_turn>user\nWhen?<end_of_turn>\n<start_of_turn>model\nThe library opens at nine on weekdays.<end_of_turn>",
            "The library opens at nine on weekdays.",
        ),
        (
            "<|im_start|>user\nWhen?<|im_end|>\n<|im_start|>assistant\n<think>\nThey ask about the library of the town.\n</think>\n\nThe library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "<|system|>\nBe kind.<|end|>\n<|user|>\nWhen?<|end|>\n<|assistant|>\nThe library opens at nine on weekdays.<|end|>",
            "The library opens at nine on weekdays.",
        ),
        ("<p>The library opens at nine on weekdays.</p>", "The library opens at nine on weekdays."),
        ("<p>The library opens at <b>nine</b> on weekdays.</p>", "The library opens at nine on weekdays."),
        (
            '<div class="a"><p>The library opens at nine on weekdays.</p></div>',
            "The library opens at nine on weekdays.",
        ),
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
            "<think>They ask about the library of the town.</think>**Answer:** The library opens at nine on weekdays.",
            "**Answer:** The library opens at nine on weekdays.",
        ),
        ('<think>They ask about "hours"</think>"Hours" it is.', '"Hours" it is.'),
        ("<think>a</think>b<think>c</think>d", "d"),
        ("<think>a</think>b<think>c</think>", "b"),
        ("a</think><think>a second thought, cut off", ""),
        (
            "<think>They ask about the library of the town.</think>\n\nPut it between <think> and </think> tags.",
            "Put it between <think> and </think> tags.",
        ),
        ("The user asks about <think> tags.\nI explain.\n</think>\n\nUse `<think>`.", "Use `<think>`."),
        (
            "<think>They ask about the library of the town.\n```\n<think>\n```\n</think>\nThe library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "<think>They ask about the library of the town.</think>\n[THINK]They ask about the library of the town.[/THINK]The library opens at nine on weekdays.",
            "The library opens at nine on weekdays.",
        ),
        (
            "<think>They ask about the library of the town.</think>\nModels write:\n<think>\nx\n</think>\nThe answer.",
            "Models write:\n<think>\nx\n</think>\nThe answer.",
        ),
        ("<reason>x y</reason>The library opens at nine.", "The library opens at nine."),
        ("<cot>x</cot>The library opens at nine.", "The library opens at nine."),
        ("<inner_monologue>x</inner_monologue>The library opens at nine.", "The library opens at nine."),
        ("<|thinking|>x<|/thinking|>The library opens at nine.", "The library opens at nine."),
        ("<ant_thinking>x</ant_thinking>The library opens at nine.", "The library opens at nine."),
        ("[REASONING]x[/REASONING]The library opens at nine.", "The library opens at nine."),
        ("<think >x</think >The library opens at nine.", "The library opens at nine."),
        ("<think>x</thinking>The library opens at nine.", "The library opens at nine."),
        (
            "<details>\n<summary>Thinking</summary>\nx\n</details>\nThe library opens at nine.",
            "The library opens at nine.",
        ),
        ("<p></p>", ""),
    ],
)
def test_thoughts_prompts_html_and_escapes_around_an_answer_are_left_out(reply: str, answer: str) -> None:
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
