"""A short RAG system as a template for your own: it answers a file of questions, or serves the plain protocol.

python my_rag_system.py tasks.jsonl > answers.jsonl
python my_rag_system.py --serve 8010
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LIBRARY = {
    "velmarrow": "Velmarrow is a harbour town. The slate marten vanished from Velmarrow by 1921.",
    "ostmarrow": "Ostmarrow lies inland. A remnant of the slate marten survived in its quarries.",
}


def my_system(messages):
    """Return the answer to a conversation, and its passages."""
    question = messages[-1]["content"].lower()
    passages = [{"id": name, "text": text} for name, text in LIBRARY.items() if name in question]
    return {"answer": passages[0]["text"] if passages else "I do not know.", "contexts": passages}


class Server(BaseHTTPRequestHandler):
    """Serves the plain protocol."""

    def do_POST(self):
        """Answer a conversation."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(my_system(request["messages"])).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Disable logging."""


if sys.argv[1] == "--serve":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Server).serve_forever()
for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
    task = json.loads(line)
    print(json.dumps({"id": task["id"], **my_system(task["messages"])}))
