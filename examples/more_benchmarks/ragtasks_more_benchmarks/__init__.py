"""TopiOCQA, FaithDial, CORAL and LiveRAG as benchmarks of ragtasks, a module each; entry points name their parts."""
