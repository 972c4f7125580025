#!/usr/bin/env python3
"""Fakes of the services that check the tokens of clients.

    fake_identity.py PORT

Listens on 127.0.0.1. Prints one line with a signed token, then serves
  /keys   the JSON Web Key Set of that token
  /apis/authentication.k8s.io/v1/selfsubjectreviews   the API server, which knows the token "good"
  /check  the service of access.custom, which knows the token "good"
The key is made at start with the standard library alone, because the package that signs tokens differs from
release to release.
"""
import base64
import hashlib
import json
import random
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(sys.argv[1])
EXPONENT = 65537
# The ASN.1 prefix of a SHA-256 digest in a PKCS #1 signature.
SHA256 = bytes.fromhex("3031300d060960864801650304020105000420")


def is_prime(number):
    if any(number % small == 0 for small in (3, 5, 7, 11, 13, 17, 19, 23, 29, 31)):
        return False
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(20):
        x = pow(random.randrange(2, number - 1), odd, number)
        if x in (1, number - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % number
            if x == number - 1:
                break
        else:
            return False
    return True


def prime():
    while True:
        number = random.getrandbits(1024) | (3 << 1022) | 1
        if (number - 1) % EXPONENT and is_prime(number):
            return number


P, Q = prime(), prime()
MODULUS = P * Q
PRIVATE = pow(EXPONENT, -1, (P - 1) * (Q - 1))


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value):
    return encode(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def signed(claims):
    head = {"alg": "RS256", "typ": "JWT", "kid": "one"}
    text = ".".join(encode(json.dumps(part).encode()) for part in (head, claims))
    digest = SHA256 + hashlib.sha256(text.encode()).digest()
    padded = b"\x00\x01" + b"\xff" * (256 - 3 - len(digest)) + b"\x00" + digest
    signature = pow(int.from_bytes(padded, "big"), PRIVATE, MODULUS)
    return text + "." + encode(signature.to_bytes(256, "big"))


KEYS = {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "one", "n": number(MODULUS), "e": number(EXPONENT)}]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply(200, KEYS)

    def do_POST(self):
        sent = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if self.path == "/check":
            is_known = sent.get("api_key") == "good"
            self.reply(200 if is_known else 401, {"principal": "alice", "attributes": {"roles": ["admin"]}})
            return
        is_known = self.headers.get("Authorization") == "Bearer good"
        user = {"username": "system:serviceaccount:ml:alice", "groups": ["system:serviceaccounts:ml"]}
        self.reply(201 if is_known else 401, {"status": {"userInfo": user}})

    def log_message(self, *_):
        pass


now = int(time.time())
print(signed({"sub": "alice", "iss": "https://login.test", "aud": "acme", "iat": now, "exp": now + 3600,
              "groups": ["ml"]}), flush=True)
ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
