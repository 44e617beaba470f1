"""Doc2Dial and MultiDoc2Dial: one data set and one retrieval unit make one benchmark."""

__all__ = []
