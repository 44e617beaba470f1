"""A LlamaIndex engine behind the plain protocol: python llamaindex_rag.py 8010. "yours" marks the parts to replace."""

import sys

from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.llms import ChatMessage, MockLLM
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from plain_protocol import PASSAGES, serve


class Words(BaseRetriever):
    """Retrieves the passages whose name is in the question."""

    def _retrieve(self, query_bundle):
        query = query_bundle.query_str.lower()
        return [
            NodeWithScore(node=TextNode(text=text, id_=name), score=1.0)
            for name, text in PASSAGES.items()
            if name in query
        ]


retriever = Words()  # yours: index.as_retriever()
model = MockLLM(max_tokens=20)  # yours: OpenAI(model=...); the mock repeats the beginning of its prompt


def answer(messages):
    """Answer a conversation."""
    engine = ContextChatEngine.from_defaults(retriever=retriever, llm=model)
    history = [ChatMessage(role=message["role"], content=message["content"]) for message in messages[:-1]]
    reply = engine.chat(messages[-1]["content"], chat_history=history)
    return str(reply), [{"id": hit.node.node_id, "text": hit.node.get_content()} for hit in reply.source_nodes]


if __name__ == "__main__":
    serve(answer, int(sys.argv[1]))
