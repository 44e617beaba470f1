"""A LangChain pipeline behind the plain protocol: python langchain_rag.py 8010. "yours" marks the parts to replace."""

import sys

from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from plain_protocol import PASSAGES, serve


class Words(BaseRetriever):
    """Retrieves the passages whose name is in the question."""

    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(text, id=name) for name, text in PASSAGES.items() if name in query.lower()]


retriever = Words()  # yours: vector_store.as_retriever()
model = GenericFakeChatModel(messages=iter(lambda: AIMessage("It vanished by 1921."), None))  # yours: ChatOpenAI(...)
prompt = ChatPromptTemplate.from_messages(
    [("system", "Answer from these passages: {context}"), ("placeholder", "{history}"), ("user", "{question}")]
)
chain = RunnablePassthrough.assign(context=RunnableLambda(lambda asked: asked["question"]) | retriever).assign(
    answer=prompt | model | StrOutputParser()
)


def answer(messages):
    """Answer a conversation."""
    history = [(message["role"], message["content"]) for message in messages[:-1]]
    result = chain.invoke({"question": messages[-1]["content"], "history": history})
    return result["answer"], [{"id": passage.id, "text": passage.page_content} for passage in result["context"]]


if __name__ == "__main__":
    serve(answer, int(sys.argv[1]))
