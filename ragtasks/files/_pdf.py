"""The text of PDF files, read by pypdf without its messages about broken files."""

from __future__ import annotations

from io import BytesIO

from ragtasks.errors import RagtasksError
from ragtasks.requirements import importing, silenced


class UnreadablePdfError(RagtasksError):
    """A PDF without extractable text; the message states the reason."""


def pdf_text(content: bytes, extra: str, purpose: str) -> tuple[list[str], str]:
    """Return the text of each page, and the title or "".

    Raises:
        UnreadablePdfError: the file is encrypted or broken.
        MissingExtraError: pypdf is not installed; the error names `extra` and `purpose`.
    """
    with importing("pypdf", extra, purpose):
        import pypdf
    with silenced("pypdf"):
        try:
            reader = pypdf.PdfReader(BytesIO(content))
            pages = [page.extract_text() for page in reader.pages]
            title = (reader.metadata.title if reader.metadata else None) or ""
        except pypdf.errors.FileNotDecryptedError:
            raise UnreadablePdfError("an encrypted PDF: remove its password first") from None
        except Exception as error:
            raise UnreadablePdfError(f"broken PDF: {type(error).__name__}") from error
    return pages, title
