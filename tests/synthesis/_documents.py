"""Documents for tests, in which no two sentences state the same."""

from __future__ import annotations

from pathlib import Path

PLACES = ("Arden", "Belmor", "Carrow", "Dunwich", "Elstow", "Farrow", "Gosfield", "Harlow")
THINGS = ("mill", "library", "harbour", "bakery", "school", "theatre", "orchard", "museum", "station", "observatory")


def town(name: str, n_sentences: int = 10, more: str = "") -> str:
    """Return a text about a town, with one sentence per sight."""
    rows = [
        f"The {thing} of {name} opened in {1700 + 13 * n + len(name)} and welcomes {40 + 7 * n} visitors a day."
        for n, thing in enumerate(THINGS[:n_sentences])
    ]
    return " ".join([*rows, *([more] if more else [])])


def write_towns(folder: Path, n: int = 3, n_sentences: int = 10) -> Path:
    """Write a document for each of the first towns."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PLACES[:n]:
        (folder / f"{name.lower()}.txt").write_text(town(name, n_sentences), encoding="utf-8")
    return folder


def pdf(*lines: str) -> bytes:
    """Return a PDF of one page with lines of text; without lines it resembles a scanned page."""
    shown = "".join(f"({line}) Tj T* " for line in lines)
    stream = f"BT /F1 12 Tf 14 TL 50 750 Td {shown}ET".encode() if lines else b""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    content, offsets = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, start=1):
        offsets.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    start = len(content)
    return (
        content
        + b"xref\n0 6\n0000000000 65535 f \n%strailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
        % (
            table,
            start,
        )
    )
