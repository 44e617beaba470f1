"""Extraction of title and text from every format, and the reading, guessing, cutting and reporting of a folder."""

from __future__ import annotations

import logging
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from ragtasks.errors import ConfigurationError, MissingExtraError
from ragtasks.synthesis.cutting import Cut, DocumentPassage, cut_documents
from ragtasks.synthesis.documents import Document, read_documents
from ragtasks.synthesis.formats import READERS, Extracted, FileReader, UnreadableFileError, extract, extract_file
from tests._messages import raises
from tests.synthesis._documents import pdf, town

GERMAN = "Die Bäckerei öffnet früh, und der Müller mahlt das Korn für die Brötchen über Nacht. " * 4


@pytest.mark.parametrize(
    ("heading", "title"),
    [
        ("# Mill", "Mill"),
        ("###### Mill ######", "Mill"),
        ("Words.\n##\tThe  mill #2 # \t", "The mill #2"),
        ("####### Mill", ""),
        ("#Mill", ""),
        (" # Mill", ""),
        ("#  \n# Mill", "Mill"),
        ("# One\n# Two", "One"),
        (f"# {'x' * 600}", "x" * 501),
        ("# Mi\x07ll", "Mi ll"),
    ],
)
def test_the_first_heading_of_markdown_is_its_title(heading: str, title: str) -> None:
    for suffix in (".md", ".markdown"):
        assert extract(f"{heading}\nText.".encode(), suffix).title == title


def test_plain_text_has_no_title_and_guessed_encodings_are_reported() -> None:
    content = f"# Mill\n{GERMAN}".encode("latin-1")
    plain, marked = extract(content, ".txt"), extract(content, ".md")
    assert (plain.title, marked.title) == ("", "Mill")
    assert plain.text == marked.text == f"# Mill\n{GERMAN}".strip()
    assert plain.encoding == marked.encoding != ""
    page = extract(
        b"<html><head><title>T</title></head><body><p>" + GERMAN.encode("latin-1") + b"</p></body></html>", ".html"
    )
    assert page.title == "T"
    assert "öffnet früh" in page.text
    assert page.encoding != ""
    for content in (
        b"Mill",
        b"\xef\xbb\xbfMill",
        b"\xff\xfeM\x00i\x00l\x00l\x00",
        b"\xfe\xff\x00M\x00i\x00l\x00l",
    ):
        assert extract(content, ".txt") == Extracted("Mill")


def test_bytes_that_contradict_the_byte_order_mark_are_replaced() -> None:
    assert extract(b"\xef\xbb\xbfMi\xffll", ".txt").text == "Mi\ufffdll"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a\r\nb\rc\nd", "a\nb\nc\nd"),
        ("a\n\n\n\n\nb\n\nc\n\n\nd", "a\n\nb\n\nc\n\nd"),
        ("\n a b \n", "a b"),
        ("a\x01\x08\x0e\x1f\x7fb", "ab"),
        ("a\tb\x0bc\x0cd", "a\tb\x0bc\x0cd"),
    ],
)
def test_a_text_has_one_kind_of_line_end_and_no_control_characters(content: str, text: str) -> None:
    assert extract(content.encode(), ".txt").text == text


def a_pdf(title: str | None, *pages: str) -> bytes:
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter()
    for text in pages:
        writer.append(PdfReader(BytesIO(pdf(text))))
    if title is not None:
        writer.add_metadata({"/Title": title})
    target = BytesIO()
    writer.write(target)
    return target.getvalue()


def test_the_pages_of_a_pdf_are_paragraphs_under_its_title() -> None:
    assert extract(a_pdf(" The\nmill ", "One.", "Two."), ".pdf") == Extracted("One.\n\nTwo.", "The mill")
    assert extract(a_pdf(None, "One."), ".pdf") == Extracted("One.")


@pytest.mark.parametrize(
    ("suffix", "content", "reason"),
    [
        (".txt", b" \x01\n", "no text in it"),
        (".html", b"<html><head><title>T</title></head><body></body></html>", "no text in it"),
        (".pdf", pdf(), "no text in it: scanned pages need OCR first"),
        (".md", b"a\x00b", "binary content"),
        (".pdf", b"", "broken PDF: EmptyFileError"),
    ],
)
def test_content_without_text_has_a_reason(tmp_path: Path, suffix: str, content: bytes, reason: str) -> None:
    with pytest.raises(UnreadableFileError) as caught:
        extract(content, suffix)
    assert str(caught.value) == reason
    (tmp_path / "file").write_bytes(content)
    assert extract_file({"path": str(tmp_path / "file"), "suffix": suffix}) == {"unreadable": reason}


def test_a_page_without_an_article_is_read_completely() -> None:
    assert extract(b"<html><body><span>Open daily.</span></body></html>", ".htm").text == "Open daily."


def test_reader_comments_are_left_out() -> None:
    article = "".join(f"<p>{sentence}.</p>" for sentence in town("Arden").split(". "))
    comments = '<div id="comments" class="comments"><p>I was there too, and it rained the whole day long.</p></div>'
    page = f"<html><head><title>Arden</title></head><body><article>{article}</article>{comments}</body></html>"
    result = extract(page.encode(), ".html").text
    assert "The mill of Arden" in result
    assert "it rained" not in result


def test_the_worker_returns_the_text_or_the_reason(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(a_pdf("Mill", "One."))
    request = {"path": str(tmp_path / "a.pdf"), "suffix": ".pdf"}
    assert extract_file(request) == {"text": "One.", "title": "Mill", "encoding": ""}
    assert extract_file({**request, "path": str(tmp_path / "none.pdf")}) == {"unreadable": "No such file or directory"}


@pytest.mark.parametrize(("suffix", "library"), [(".html", "trafilatura"), (".pdf", "pypdf")])
def test_a_missing_library_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, library: str
) -> None:
    (tmp_path / "file").write_bytes(b"content")
    monkeypatch.setitem(sys.modules, library, None)
    request = {"path": str(tmp_path / "file"), "suffix": suffix}
    assert extract_file(request) == {"missing": library}
    with pytest.raises(MissingExtraError) as direct:
        extract(b"content", suffix)

    class InThisProcess:
        def ask(self, question: dict[str, str]) -> dict[str, Any]:
            return extract_file(question)

    reader = FileReader()
    monkeypatch.setattr(reader, "_process", InThisProcess())
    (tmp_path / f"a{suffix.upper()}").write_bytes(b"content")
    with pytest.raises(MissingExtraError) as by_reader:
        reader.read(tmp_path / f"a{suffix.upper()}")
    step = "Next step: pip install 'ragtasks[synthesis]'"
    expected = f"reading documents needs {library}, which is not installed. {step}"
    assert (str(direct.value), str(by_reader.value)) == (expected, expected)


def test_without_the_detection_library_only_files_that_need_it_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "charset_normalizer", None)
    assert extract(b"Mill", ".txt").text == "Mill"
    with pytest.raises(MissingExtraError, match=r"charset-normalizer.*synthesis"):
        extract(GERMAN.encode("latin-1"), ".txt")


def test_a_file_that_exceeds_the_memory_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(content: bytes) -> Extracted:
        raise MemoryError

    monkeypatch.setitem(READERS, ".pdf", full)  # type: ignore[arg-type]
    (tmp_path / "a.pdf").touch()
    result = extract_file({"path": str(tmp_path / "a.pdf"), "suffix": ".pdf"})
    assert result == {"unreadable": "more than 4,096 MiB of memory to read it"}


@pytest.mark.parametrize(("suffix", "logger"), [(".pdf", "pypdf"), (".html", "trafilatura")])
def test_the_logger_of_a_library_is_silenced_temporarily(suffix: str, logger: str) -> None:
    for disabled in (False, True):
        logging.getLogger(logger).disabled = disabled
        with pytest.raises(UnreadableFileError):
            extract(b"", suffix)
        assert logging.getLogger(logger).disabled is disabled
    logging.getLogger(logger).disabled = False


def test_a_size_up_to_the_limit_is_read(tmp_path: Path) -> None:
    for n in (9, 10, 11):
        (tmp_path / f"{n}.txt").write_bytes(b"x" * n)
    result = read_documents(tmp_path, most_bytes=10)
    assert [document.document_id for document in result.documents] == ["10.txt", "9.txt"]
    (left,) = result.left_out
    assert left.reason == "11 bytes, above the limit of 10 for .txt files: split it, or raise the limit"


def test_links_within_the_folder_are_followed_to_files_only(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.txt").write_text("A text.", "utf-8")
    (tmp_path / "link").symlink_to("deep")
    (tmp_path / "same.md").symlink_to("deep/a.txt")
    result = read_documents(tmp_path)
    assert [document.document_id for document in result.documents] == ["deep/a.txt"]
    assert {document.name: document.reason for document in result.left_out} == {
        "link": "a link whose target is not a file, not followed",
        "same.md": "the same text as deep/a.txt",
    }
    assert result.other_formats == {}


def test_hidden_files_and_folders_are_ignored(tmp_path: Path) -> None:
    for name in ("a.txt", ".b.txt", ".git/c.txt", "deep/.d/e.txt", "deep/f.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"About {name}.", "utf-8")
    (tmp_path / ".config").mkdir()
    result = read_documents(tmp_path)
    assert [document.document_id for document in result.documents] == ["a.txt", "deep/f.txt"]
    below = tmp_path / ".git"
    assert [document.document_id for document in read_documents(below).documents] == ["c.txt"], (
        "the folder itself may be hidden"
    )


def test_progress_names_each_file_and_then_all(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(f"About {name}.", "utf-8")
    steps: list[tuple[str, int, int | None]] = []
    read_documents(tmp_path, progress=lambda *step: steps.append(step))
    assert steps == [("read documents\ta.txt", 0, 2), ("read documents\tb.txt", 1, 2), ("read documents", 2, 2)]


def test_guessed_encodings_are_counted_for_every_format(tmp_path: Path) -> None:
    for number, suffix in enumerate(("txt", "md", "markdown")):
        (tmp_path / f"a.{suffix}").write_bytes(f"{GERMAN}{number}".encode("latin-1"))
    (tmp_path / "b.txt").write_text(GERMAN, "utf-8")
    result = read_documents(tmp_path)
    assert sum(result.guessed.values()) == 3
    assert len(result.documents) == 4


def test_a_lone_surrogate_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, ".txt", lambda content: Extracted("half \ud800", "\ud800 title"))  # type: ignore[arg-type]
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_bytes(b"x")
    result = read_documents(tmp_path)
    (document,) = result.documents
    assert document.text == "half ?"
    assert [omitted.reason for omitted in result.left_out] == ["the same text as a.txt"]


def test_files_of_other_formats_are_counted_by_extension(tmp_path: Path) -> None:
    for name in ("a.txt", "x.PNG", "y.png", "z.tar.gz", "Makefile"):
        (tmp_path / name).write_text(f"About {name}.", "utf-8")
    assert read_documents(tmp_path).other_formats == {".png": 2, ".gz": 1, "no ending": 1}


def test_names_with_the_same_id_are_numbered(tmp_path: Path) -> None:
    for number, name in enumerate(("a b.txt", "a  b.txt", "a_b.txt")):
        (tmp_path / name).write_text(f"Text {number}.", "utf-8")
    result = read_documents(tmp_path, folders_are_domains=True).documents
    assert [document.document_id for document in result] == ["a_b.txt", "a_b.txt~2", "a_b.txt~3"]
    assert {document.domain for document in result} == {"custom"}, "these are in no folder"


@pytest.mark.parametrize(
    ("folder", "domain"),
    [
        ("Town Hall", "town-hall"),
        ("_-x-_", "x"),
        ("Ärzte & Co.", "rzte-co"),
        ("a_b-c9", "a_b-c9"),
        ("y" * 80, "y" * 64),
        ("---", "custom"),
    ],
)
def test_the_first_folder_is_the_domain_if_folders_are_domains(tmp_path: Path, folder: str, domain: str) -> None:
    (tmp_path / folder / "deep").mkdir(parents=True)
    (tmp_path / folder / "deep" / "a.txt").write_text("A text.", "utf-8")
    for are_domains, expected in ((True, domain), (False, "custom")):
        (result,) = read_documents(tmp_path, folders_are_domains=are_domains).documents
        assert result.domain == expected


def test_a_folder_without_text_lists_its_contents(tmp_path: Path) -> None:
    with raises(ConfigurationError):
        read_documents(tmp_path)
    for name in ("a.txt", "b.txt", "c.txt", "d.txt", "x.png", "y.png", "z.gif", "w.doc", "v.tex"):
        (tmp_path / name).write_bytes(b" ")
    with raises(ConfigurationError):
        read_documents(tmp_path)
    with raises(ConfigurationError):
        read_documents(tmp_path / "none")


def passages_of(text: str, cut: Cut) -> list[DocumentPassage]:
    return cut_documents([Document("a.txt", "north", "Arden", text)], cut)[0]


def test_passages_by_tokens_overlap_by_size_minus_stride(tmp_path: Path) -> None:
    text = " ".join(f"w{number}" for number in range(10))
    result = passages_of(text, Cut(size=4, stride=3))
    assert [passage.passage.text for passage in result] == ["w0 w1 w2 w3", "w3 w4 w5 w6", "w6 w7 w8 w9"]
    assert {(passage.document_id, passage.domain, passage.passage.title) for passage in result} == {
        ("a.txt", "north", "Arden")
    }
    assert result[1].passage.passage_id == "a.txt-9-20"
    assert [passage.passage.text for passage in passages_of(text, Cut(size=5, stride=5))] == [
        "w0 w1 w2 w3 w4",
        "w5 w6 w7 w8 w9",
    ]


def test_passages_by_sentences_have_the_given_size() -> None:
    text = "One here. Two here. Three here. Four here. Five here."
    result = passages_of(text, Cut("sentences", 3, 2))
    assert [passage.passage.text for passage in result] == [
        "One here. Two here. Three here.",
        "Three here. Four here. Five here.",
    ]
    assert [passage.passage.passage_id for passage in result] == ["a.txt-0-31", "a.txt-20-53"]
    assert {(passage.document_id, passage.domain, passage.passage.title) for passage in result} == {
        ("a.txt", "north", "Arden")
    }


def test_the_similarity_of_near_duplicates_can_be_set() -> None:
    words = [f"w{number}" for number in range(200)]
    documents = [
        Document(name, "north", name, " ".join(text))
        for name, text in (("a", words), ("b", [*words[:170], *(f"v{number}" for number in range(30))]))
    ]
    kept, repeated = cut_documents(documents, Cut(threshold=0.9))
    assert (len(kept), repeated) == (2, [])
    kept, (left,) = cut_documents(documents, Cut(threshold=0.5))
    assert [passage.document_id for passage in kept] == ["a"]
    assert (left.name, left.reason) == (
        f"b-0-{len(documents[1].text)}",
        f"nearly the same text as a-0-{len(documents[0].text)}",
    )


@pytest.mark.parametrize(("size", "stride", "is_one"), [(1, 1, True), (5, 5, True), (5, 6, False), (5, 0, False)])
def test_a_stride_must_be_between_one_and_the_size(size: int, stride: int, is_one: bool) -> None:
    if is_one:
        assert Cut(size=size, stride=stride).stride == stride
        return
    with raises(ConfigurationError):
        Cut(size=size, stride=stride)


def test_an_unknown_unit_of_passages_is_an_error() -> None:
    with raises(ConfigurationError):
        Cut("words")
