"""A short agent over the plain protocol that reports its searches, as a template for your own.

python my_agent.py passages.jsonl 8011
"""

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PASSAGES = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]


def words(text):
    """Return the stems of the words to search for."""
    return {word[:5] for word in re.findall(r"\w{4,}", text.lower())}


def search(query):
    """Return the two passages that share the most words with a query."""
    scored = [(len(words(query) & words(passage["text"])), passage) for passage in PASSAGES]
    best = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])[:2]
    return [{"id": passage["_id"], "text": passage["text"]} for _, passage in best]


def my_agent(messages):
    """Search for the question, then for all questions so far; answer with the best passage."""
    questions = [message["content"] for message in messages if message["role"] == "user"]
    queries = dict.fromkeys((questions[-1], " ".join(questions)))
    searches = [{"query": query, "passages": search(query)} for query in queries]
    passages = [passage for result in searches for passage in result["passages"]]
    return {"answer": passages[0]["text"] if passages else "I do not know.", "searches": searches}


class Server(BaseHTTPRequestHandler):
    """Serves the plain protocol."""

    def do_POST(self):
        """Answer a conversation."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(my_agent(request["messages"])).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Disable logging."""


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Server).serve_forever()
