#!/usr/bin/env python3
"""A fake MCP server with one tool, over both HTTP transports.

    fake_mcp.py PORT

Listens on 127.0.0.1. Serves /mcp (streamable HTTP, replies as JSON) and /sse (server-sent events, the only
transport of clients before 0.2.13). The tool is called read_file.
"""
import json
import queue
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(sys.argv[1])
TOOL = {
    "name": "read_file",
    "description": "Reads a file",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
# The messages for the one client of /sse.
MESSAGES: queue.Queue = queue.Queue()


def result(request):
    """The result of a request; None for a notification."""
    if "id" not in request:
        return None
    if request["method"] == "initialize":
        return {
            "protocolVersion": request["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "fake", "version": "1"},
        }
    return {"tools": [TOOL]} if request["method"] == "tools/list" else {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, body=b"", kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def event(self, name, data):
        self.wfile.write(f"event: {name}\ndata: {data}\n\n".encode())
        self.wfile.flush()

    def do_GET(self):
        if not self.path.startswith("/sse"):
            self.reply(405)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.event("endpoint", "/messages")
        try:
            while True:
                self.event("message", MESSAGES.get())
        except OSError:
            self.close_connection = True

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = result(request)
        message = json.dumps({"jsonrpc": "2.0", "id": request.get("id"), "result": answer})
        if answer is None:
            self.reply(202)
        elif self.path.startswith("/messages"):
            MESSAGES.put(message)
            self.reply(202)
        else:
            self.reply(200, message.encode())

    def do_DELETE(self):
        self.reply(200)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
