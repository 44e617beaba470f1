"""TREC RAG 2024 for who takes part: answer files built and checked, nuggets made, answers of any system scored."""

__all__: list[str] = []
