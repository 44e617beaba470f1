from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from ragtasks.synthesis.cutting import Cut, cut_documents
from ragtasks.synthesis.documents import Document, read_documents
from retrieval_cache import sentence_spans
from tests._messages import same_message
from tests.synthesis._documents import pdf, town, write_towns

PAGE = """<html><head><title>The mill</title></head><body><nav>Home | About</nav><article><h1>The mill</h1>
<p>The mill of Arden grinds rye and wheat on four days of the week, and anybody may bring a sack of grain.</p>
<p>The miller charges eight crowns a sack, which includes the bag that the flour goes home in.</p>
</article></body></html>
"""


def test_every_format_gives_its_text_and_title(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("Plain text.\r\n\r\n\r\n\r\nMore.", "utf-8")
    (tmp_path / "marked.md").write_text("# A heading #\n\nMarked text.", "utf-8")
    (tmp_path / "page.html").write_text(PAGE, "utf-8")
    (tmp_path / "print.PDF").write_bytes(pdf("Printed text.", "On two lines."))
    result = {document.document_id: document for document in read_documents(tmp_path).documents}
    assert {name: document.title for name, document in result.items()} == {
        "marked.md": "A heading",
        "page.html": "The mill",
        "plain.txt": "plain",
        "print.PDF": "print",
    }
    assert result["plain.txt"].text == "Plain text.\n\nMore."
    assert result["print.PDF"].text == "Printed text.\nOn two lines."
    assert "eight crowns a sack" in result["page.html"].text
    assert "Home | About" not in result["page.html"].text


def test_unreadable_files_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    content = {
        "a.txt": town("Arden").encode(),
        "again.txt": town("Arden").replace(" ", "\n").encode(),
        "big.txt": b"x" * 10_001,
        "binary.txt": b"\x7fELF\x00\x01\x02",
        "blank.txt": b" \n\t\n",
        "broken.pdf": b"%PDF-1.4 and nothing more",
        "locked/secret.pdf": _encrypted(),
        "nothing.html": b"<html><body></body></html>",
        "scanned.pdf": pdf(),
        "picture.png": b"\x89PNG",
        ".hidden.txt": b"Not looked at.",
    }
    for name, file_content in content.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(file_content)
    result = read_documents(tmp_path, most_bytes=10_000)
    assert [file_content.document_id for file_content in result.documents] == ["a.txt"]
    same_message("\n".join(f"{file_content.name}: {file_content.reason}" for file_content in result.left_out))
    assert result.other_formats == {".png": 1}


def test_links_to_outside_targets_are_named_and_not_followed(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    for folder in (outside, inside / "deep"):
        folder.mkdir(parents=True)
    (outside / "secret.txt").write_text("A secret.", "utf-8")
    (inside / "a.txt").write_text("A text.", "utf-8")
    (inside / "out.txt").symlink_to(outside / "secret.txt")
    (inside / "deep" / "up.md").symlink_to("../../outside/secret.txt")
    (inside / "folder").symlink_to(outside)
    (inside / "gone.txt").symlink_to("nowhere.txt")
    (inside / "round.txt").symlink_to("round.txt")
    (inside / "deep" / "same.txt").symlink_to("../a.txt")
    (inside / "picture.png").symlink_to(outside / "secret.txt")
    result = read_documents(inside)
    assert [document.text for document in result.documents] == ["A text."]
    same_message("\n".join(f"{document.name}: {document.reason}" for document in result.left_out))
    (tmp_path / "link").symlink_to(inside)
    assert len(read_documents(tmp_path / "link").documents) == 1


@pytest.mark.slow
def test_a_file_that_exceeds_the_time_limit_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(PAGE, "utf-8")
    (tmp_path / "slow.html").write_text(f"<html><body>{'<p>A <b>row</b> of words.</p>' * 300_000}", "utf-8")
    (tmp_path / "z.txt").write_text("Still read.", "utf-8")
    (tmp_path / "large.htm").write_bytes(b" " * 10_000_001)
    shown: list[str] = []
    result = read_documents(tmp_path, most_seconds=4, progress=lambda step, *_: shown.append(step))
    assert [document.document_id for document in result.documents] == ["a.html", "z.txt"]
    limit = "10,000,001 bytes, above the limit of 10,000,000 for .htm files: split it, or save its text as .txt"
    reason = "more than 4 seconds or 4,096 MiB of memory to read it: split it, or save its text as .txt"
    assert {document.name: document.reason for document in result.left_out} == {"large.htm": limit, "slow.html": reason}
    assert "read documents\tslow.html" in shown


def _encrypted() -> bytes:
    from io import BytesIO

    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(clone_from=PdfReader(BytesIO(pdf("Secret."))))
    writer.encrypt("word", algorithm="RC4-128")
    target = BytesIO()
    writer.write(target)
    return target.getvalue()


def test_near_duplicates_leave_one_passage_per_domain(tmp_path: Path) -> None:
    for name, text in {"a": town("Arden"), "b": town("Arden") + " And so on.", "c": town("Belmor")}.items():
        (tmp_path / f"{name}.txt").write_text(text, "utf-8")
    passages, repeated = cut_documents(read_documents(tmp_path).documents, Cut())
    assert [passage.document_id for passage in passages] == ["a.txt", "c.txt"]
    assert [passage.reason for passage in repeated] == [f"nearly the same text as a.txt-0-{len(town('Arden'))}"]


def test_near_duplicates_in_two_domains_are_kept(tmp_path: Path) -> None:
    for domain, more in (("north", ""), ("south", " And so on.")):
        (tmp_path / domain).mkdir()
        (tmp_path / domain / "a.txt").write_text(town("Arden") + more, "utf-8")
    passages, repeated = cut_documents(read_documents(tmp_path, folders_are_domains=True).documents, Cut())
    assert [passage.domain for passage in passages] == ["north", "south"]
    assert repeated == []


@pytest.mark.parametrize("cut", [Cut(size=30, stride=20), Cut("sentences", 4, 2)])
def test_passage_ids_contain_offsets_and_no_text_is_lost(tmp_path: Path, cut: Cut) -> None:
    documents = read_documents(write_towns(tmp_path, 2)).documents
    passages, _ = cut_documents(documents, cut)
    by_id = {passage.document_id: passage.text for passage in documents}
    covered: dict[str, set[int]] = {}
    for passage in passages:
        start, end = map(int, passage.passage.passage_id.rsplit("-", 2)[1:])
        assert passage.passage.text == by_id[passage.document_id][start:end]
        covered.setdefault(passage.document_id, set()).update(range(start, end))
    for name, text in by_id.items():
        assert {index for index, sign in enumerate(text) if not sign.isspace()} <= covered[name]


def test_passages_can_be_cut_by_an_encoders_tokens(tmp_path: Path) -> None:
    """Tokens are letters here, so that a passage of 30 tokens has 30 letters."""
    file = tmp_path / "tokenizer.json"
    letters = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    letters.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    letters.save(str(file))
    document = Document("a", "custom", "A", "The mill of Arden grinds rye and wheat on four days of the week. " * 3)
    passages, _ = cut_documents([document], Cut(size=30, stride=20, tokenizer=str(file)))
    assert {len(passage.passage.text) for passage in passages[:-1]} <= {29, 30}  # without whitespace at either end
    assert len(passages) > len(cut_documents([document], Cut(size=30, stride=20))[0])


@given(st.text(alphabet="aB. !?\n", max_size=60))
def test_sentences_are_in_order_with_every_word(text: str) -> None:
    spans = list(sentence_spans(text))
    assert all(left[1] <= right[0] for left, right in pairwise(spans))
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())


def test_the_shortest_document_is_one_passage() -> None:
    passages, repeated = cut_documents([Document("a", "custom", "A", "x")], Cut())
    assert [passage.passage.text for passage in passages] == ["x"]
    assert repeated == []
