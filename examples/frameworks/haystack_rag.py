"""A Haystack pipeline behind the plain protocol: python haystack_rag.py 8010. "yours" marks the parts to replace."""

import sys

from haystack import Document, Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack.components.retrievers import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
from plain_protocol import PASSAGES, serve

TEMPLATE = """{% for item in documents %}{{ item.content }}
{% endfor %}{% for item in history %}{{ item.content }}
{% endfor %}{{ question }}"""


@component
class Scripted:
    """A generator with a fixed reply."""

    @component.output_types(replies=list[str])
    def run(self, prompt: str):
        """Reply to a prompt."""
        return {"replies": ["It vanished by 1921."]}


store = InMemoryDocumentStore()
store.write_documents([Document(id=name, content=text) for name, text in PASSAGES.items()])
pipeline = Pipeline()
pipeline.add_component("retriever", InMemoryBM25Retriever(store, top_k=1))  # yours: the retriever of your store
pipeline.add_component("prompt", PromptBuilder(TEMPLATE, required_variables="*"))
pipeline.add_component("model", Scripted())  # yours: OpenAIGenerator(model=...)
pipeline.connect("retriever.documents", "prompt.documents")
pipeline.connect("prompt.prompt", "model.prompt")


def answer(messages):
    """Answer a conversation."""
    question = messages[-1]["content"]
    inputs = {"retriever": {"query": question}, "prompt": {"question": question, "history": messages[:-1]}}
    outputs = pipeline.run(inputs, include_outputs_from={"retriever"})
    contexts = [{"id": document.id, "text": document.content} for document in outputs["retriever"]["documents"]]
    return outputs["model"]["replies"][0], contexts


if __name__ == "__main__":
    serve(answer, int(sys.argv[1]))
