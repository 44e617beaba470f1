"""A retriever's line is printed and stored, so it must not contain a key."""

from __future__ import annotations

import pytest

from ragtasks.errors import ConfigurationError
from retrieval_cache.spec import parse


@pytest.mark.parametrize(
    ("line", "variables"),
    [
        ("elser:http://localhost:9200,index=passages,api_key=hunter2", "ELASTIC_API_KEY"),
        ("hybrid(bm25,milvus:http://localhost:1,token=hunter2)", "MILVUS_TOKEN"),
        ("bm25:api_key = hunter2", "OPENAI_API_KEY"),
        ("rerank(bm25,listwise:openai/x,api_key=hunter2)", "OPENAI_API_KEY"),
        ("hybrid(bm25,elser:http://localhost,index=i,API-KEY=hunter2)", "ELASTIC_API_KEY"),
        ("mine.module:Retriever,password=hunter2", "OPENAI_API_KEY"),
    ],
)
def test_a_key_in_the_line_is_refused_without_printing_it(line: str, variables: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        parse(line)
    assert "hunter2" not in str(error.value)
    assert f"set {variables} in" in str(error.value)


def test_a_key_of_the_caller_reaches_the_retriever_and_not_its_description() -> None:
    retriever = parse("elser:http://localhost:9200,index=passages", {"ELASTIC_API_KEY": "hunter2"}.get)
    assert "hunter2" not in f"{retriever.name}{retriever.describe()!r}{retriever!r}"
