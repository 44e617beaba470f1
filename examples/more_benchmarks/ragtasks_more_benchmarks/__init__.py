"""TopiOCQA, FaithDial, CORAL and LiveRAG as benchmarks of ragtasks, one module each, registered by entry points."""
