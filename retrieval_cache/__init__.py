"""The precompute stage: it turns a corpus and a benchmark's queries into runs that the harness tasks read."""
