"""Answers two questions by an example, and writes the spans of the framework's own instrumentation: NAME FILE.

Runs in an environment with the frameworks, and without ragtasks.
"""

import importlib
import sys

from openinference.instrumentation import using_session
from opentelemetry.exporter.otlp.json.file import FileSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

INSTRUMENTORS = {
    "langchain_rag": ("langchain", "LangChainInstrumentor"),
    "llamaindex_rag": ("llama_index", "LlamaIndexInstrumentor"),
    "haystack_rag": ("haystack", "HaystackInstrumentor"),
}
QUESTIONS = ("When did the slate marten vanish from Velmarrow?", "And in Ostmarrow?")


def main(name: str, file: str) -> None:
    """Trace an example."""
    module, instrumentor = INSTRUMENTORS[name]
    provider = TracerProvider()
    with open(file, "w", encoding="utf-8") as stream:  # noqa: PTH123 (no import that is not needed here)
        provider.add_span_processor(SimpleSpanProcessor(FileSpanExporter(stream=stream)))
        found = importlib.import_module(f"openinference.instrumentation.{module}")
        getattr(found, instrumentor)().instrument(tracer_provider=provider)
        example = importlib.import_module(name)
        for question in QUESTIONS:
            with using_session("session-1"):
                example.answer([{"role": "user", "content": question}])


if __name__ == "__main__":
    main(*sys.argv[1:])
