#!/usr/bin/env python3
"""A fake vLLM server, with what llama-stack needs to list and check its models.

    fake_vllm.py PORT [MODEL ...]

Listens on 127.0.0.1, or on FAKE_VLLM_ADDRESS; PORT 0 selects a free port. The first line of output is
`listening on ADDRESS:PORT`.

Serves GET /health, GET /v1/models and POST /v1/chat/completions with a fixed reply. Every other path
returns 404, among them /models, which shows that a base URL lacks /v1.
If FAKE_VLLM_TOKEN is set, /v1 requests need that bearer token. With FAKE_VLLM_TLS, a file with a certificate
and its key, it serves HTTPS.
"""
import json
import os
import ssl
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 18000
MODELS = sys.argv[2:] or ["llama3.2-8b"]
TOKEN = os.environ.get("FAKE_VLLM_TOKEN")
ADDRESS = os.environ.get("FAKE_VLLM_ADDRESS", "127.0.0.1")
TLS = os.environ.get("FAKE_VLLM_TLS")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def allowed(self):
        if TOKEN and self.headers.get("authorization") != f"Bearer {TOKEN}":
            self.reply(401, {"error": {"message": "invalid token", "type": "auth"}})
            return False
        return True

    def do_GET(self):
        if self.path == "/health":
            return self.reply(200, {})
        if self.path.rstrip("/") == "/v1/models":
            if self.allowed():
                self.reply(200, {"object": "list", "data": [
                    {"id": m, "object": "model", "created": int(time.time()), "owned_by": "fake"} for m in MODELS]})
            return
        self.reply(404, {"error": {"message": f"path {self.path} not found", "type": "not_found"}})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        if self.path != "/v1/chat/completions":
            return self.reply(404, {"error": {"message": f"path {self.path} not found", "type": "not_found"}})
        if self.allowed():
            self.reply(200, {"id": "fake-1", "object": "chat.completion", "created": int(time.time()),
                             "model": body.get("model"), "choices": [{"index": 0, "finish_reason": "stop",
                             "message": {"role": "assistant", "content": "hello from fake vllm"}}],
                             "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}})

    def log_message(self, fmt, *args):
        print(time.strftime("%H:%M:%S"), self.command, self.path, args[1] if len(args) > 1 else "", flush=True)


if __name__ == "__main__":
    server = ThreadingHTTPServer((ADDRESS, PORT), Handler)
    if TLS:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print(f"listening on {ADDRESS}:{server.server_port}", flush=True)
    server.serve_forever()
