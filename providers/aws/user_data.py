"""The user data for cloud-init: our boot script, after the user data of the operator's own launch template."""

from __future__ import annotations

import base64
import binascii
import gzip
import zlib
from collections.abc import Sequence
from email import message_from_bytes
from email.message import Message
from email.mime.multipart import MIMEMultipart
from email.mime.nonmultipart import MIMENonMultipart

from autoscaler.providers.interface import Refused

MOST_USER_DATA = 16384
"""EC2's limit in bytes, before base64."""
_GZIP = b"\x1f\x8b"
_KINDS = {
    b"#!": "x-shellscript",
    b"#cloud-config-archive": "cloud-config-archive",
    b"#cloud-config": "cloud-config",
    b"#cloud-boothook": "cloud-boothook",
    b"#include": "x-include-url",
    b"#part-handler": "part-handler",
    b"## template:": "jinja2",
}
"""The first lines by which cloud-init recognises a format. The longer of two that begin alike stands first."""
_BOUNDARY = "==sge-autoscaler=="
"""A fixed boundary: user data are part of an idempotent request."""
_OURS = "zz-sge-autoscaler"
"""cloud-init runs scripts in the order of their file names; its own of `runcmd` is called `runcmd`."""


def user_data(boot_script: str, own: str = "") -> bytes:
    """User data that run the operator's `own` (base64, as a launch template holds them) and then the boot script.

    Long ones are compressed. Raises Refused if that is not enough, or if cloud-init does not know the format of `own`.
    """
    plain = boot_script.encode()
    if own:
        plain = _joined([*_parts(_decoded(own)), _part("x-shellscript", plain, _OURS)])
    if len(plain) <= MOST_USER_DATA:
        return plain
    # gzip writes the time into its header: the same request would differ from call to call.
    packed = gzip.compress(plain, mtime=0)
    if len(packed) > MOST_USER_DATA:
        raise Refused(f"the boot script has {len(plain)} bytes: EC2 takes at most {MOST_USER_DATA}, compressed")
    return packed


def _decoded(own: str) -> bytes:
    try:
        data = base64.b64decode(own)
        return gzip.decompress(data) if data.startswith(_GZIP) else data
    except (binascii.Error, OSError, EOFError, zlib.error) as error:
        raise Refused(f"the launch template's UserData cannot be read: {error}") from error


def _parts(data: bytes) -> list[Message]:
    if not data.strip():
        return []
    for first, kind in _KINDS.items():
        if data.startswith(first):
            return [_part(kind, data, "operator")]
    message = message_from_bytes(data)
    if not message.is_multipart():
        raise Refused(
            "cloud-init does not know the format of the launch template's UserData: begin them with #! or #cloud-config"
        )
    parts = message.get_payload()
    return [part for part in parts if isinstance(part, Message)]


def _part(kind: str, data: bytes, name: str) -> Message:
    part = MIMENonMultipart("text", kind)
    part.set_payload(base64.encodebytes(data).decode("ascii"))
    part["Content-Transfer-Encoding"] = "base64"
    part.add_header("Content-Disposition", "attachment", filename=name)
    return part


def _joined(parts: Sequence[Message]) -> bytes:
    whole = MIMEMultipart(boundary=_BOUNDARY)
    for part in parts:
        whole.attach(part)
    return whole.as_bytes()
