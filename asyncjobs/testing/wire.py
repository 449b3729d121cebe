"""As much of PostgreSQL's protocol as the proxy has to understand."""

import struct

_HEAD_BYTES = 5  # a kind and a length
_STARTUP = 196608  # protocol 3.0; other codes ask for encryption or cancel a statement


def application_name(packet: bytes) -> str | None:
    """The application name in a startup packet, "" when it has none; None when this packet is not that."""
    (code,) = struct.unpack_from("!i", packet)
    if code >> 16 != _STARTUP >> 16:
        return None
    words = packet[4:].split(b"\0")
    return dict(zip(words[::2], words[1::2], strict=False)).get(b"application_name", b"").decode()


class Frames:
    """Follows the messages in one direction of a connection, whatever the pieces in which they come."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0

    def kinds(self, chunk: bytes) -> set[bytes]:
        """The kinds of the messages that begin in this piece."""
        found: set[bytes] = set()
        at = 0
        while at < len(chunk):
            if self._left:
                step = min(self._left, len(chunk) - at)
                self._left -= step
                at += step
                continue
            need = _HEAD_BYTES - len(self._head)
            self._head += chunk[at : at + need]
            at += min(need, len(chunk) - at)
            if len(self._head) == _HEAD_BYTES:
                found.add(self._head[:1])
                self._left = struct.unpack("!i", self._head[1:])[0] - 4
                self._head = b""
        return found
