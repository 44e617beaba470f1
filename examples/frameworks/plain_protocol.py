"""The plain protocol of `ragtasks score ADDRESS --protocol plain`, for any function that answers."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def serve(answer, port):
    """Serve a function that accepts the messages of a conversation and returns the answer and its passages."""

    class Server(BaseHTTPRequestHandler):
        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text, contexts = answer(request["messages"])
            body = json.dumps({"answer": text, "contexts": contexts}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Disable logging."""

    ThreadingHTTPServer(("127.0.0.1", port), Server).serve_forever()


PASSAGES = {
    "velmarrow": "Velmarrow is a harbour town. The slate marten vanished from Velmarrow by 1921.",
    "ostmarrow": "Ostmarrow lies inland. A remnant of the slate marten survived in its quarries.",
}
"""Two passages that the examples search."""
