"""Calls a Unix socket as another user of this machine: root starts a process of its own as that user."""

from __future__ import annotations

import json
import pwd
import subprocess
from pathlib import Path
from typing import Any

PROGRAM = """
import socket, sys
path, method, target, head, body = sys.argv[1:]
with socket.socket(socket.AF_UNIX) as made:
    made.connect(path)  # a socket with a timeout would not wait for a place in a full queue
    made.settimeout(120)
    head = f"{method} {target} HTTP/1.1\\r\\nHost: localhost\\r\\n{head}Connection: close\\r\\n"
    made.sendall(f"{head}Content-Length: {len(body)}\\r\\n\\r\\n{body}".encode())
    reply = b""
    while part := made.recv(65536):
        reply += part
sys.stdout.buffer.write(reply)
"""


def call_as(
    user: str,
    path: Path,
    target: str,
    *,
    method: str = "GET",
    body: str = "",
    groups: tuple[int, ...] = (),
    **headers: str,
) -> tuple[int, dict[str, Any]]:
    """Status and document."""
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    done = python_as(user, PROGRAM, str(path), method, target, head, body, groups=groups)
    assert done.returncode == 0, done.stderr.decode()
    head_of, _, output = done.stdout.partition(b"\r\n\r\n")
    return int(head_of.split(b" ")[1]), json.loads(output)


def python_as(user: str, program: str, *words: str, groups: tuple[int, ...] = ()) -> subprocess.CompletedProcess[bytes]:
    """Runs a program that uses only the standard library as this user, who may not be able to read our Python."""
    return subprocess.run(
        ["/usr/bin/python3", "-I", "-S", "-c", program, *words],
        user=user,
        group=pwd.getpwnam(user).pw_gid,
        extra_groups=list(groups),
        capture_output=True,
        timeout=300,
        check=False,
        cwd="/",
    )
