"""Whole binary frames without a detour; the library has all else.

A connection carries little but whole binary frames. `websockets` takes more than twice as long for one as the
few lines here. It reads and writes the handshake and all control frames, refuses what breaks the
protocol, and is given whole frames only. So it always stands between two frames, like this module.
"""

from __future__ import annotations

import os
import struct
from typing import Final, final

from websockets.client import ClientProtocol
from websockets.frames import apply_mask  # type: ignore[attr-defined]
from websockets.protocol import OPEN, Event
from websockets.server import ServerProtocol

_BINARY: Final = 0x82  # the first byte of a whole binary frame without extensions
_CONTROL: Final = (0x88, 0x89, 0x8A)
_MASKED, _SHORT, _LENGTHS = 0x80, 125, {126: 4, 127: 10}  # where the rest of the header begins
_KEY = 4
_PIECE = 1 << 12  # bytes that the library reads before the caller looks at its events
_HTTP_ENDS = b"\r\n\r\n"


@final
class Frames:
    """What one connection receives and sends, frame by frame.

    `feed` it what arrives, then call `read` until it returns None.
    """

    def __init__(self, websocket: ClientProtocol | ServerProtocol) -> None:
        self._websocket, self._client = websocket, isinstance(websocket, ClientProtocol)
        self._buffer = bytearray()
        self._http: bytes | None = b""
        """The last bytes of the HTTP head that were read; None behind it."""
        self._odd = False  # the library has refused something, or is about to

    def feed(self, data: bytes) -> None:
        """Add bytes that arrived."""
        self._buffer += data

    def read(self) -> bytes | list[Event] | None:
        """Return the next frame, or events of the library.

        None if there is nothing more to read for now.
        """
        if not self._buffer:
            return None
        if self._http is not None:
            return self._read_http(self._http)
        if self._odd or self._websocket.state is not OPEN:
            return self._by_library(_PIECE)
        return self._read_frame()

    def _read_http(self, before: bytes) -> list[Event]:
        # Frames may follow in the same bytes. The library must not begin one of them.
        piece = before + self._buffer[:_PIECE]
        found = piece.find(_HTTP_ENDS)
        ends = found >= 0
        self._http = None if ends else piece[1 - len(_HTTP_ENDS) :]
        return self._by_library(found + len(_HTTP_ENDS) - len(before) if ends else _PIECE)

    def _read_frame(self) -> bytes | list[Event] | None:
        span = self._span()
        if span is None:
            return None
        start, end = span
        if self._odd or self._buffer[0] != _BINARY:
            return self._by_library(end)
        payload = self._buffer[start:end]
        frame = bytes(payload if self._client else apply_mask(payload, self._buffer[start - _KEY : start]))
        del self._buffer[:end]
        return frame

    def _span(self) -> tuple[int, int] | None:
        """Return where the payload of the next frame begins and ends.

        None if it is not whole yet. If it is odd, the library gets it and all behind it, and refuses it with
        the reason that the protocol has.
        """
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        first, length = buffer[0], buffer[1] & ~_MASKED
        start = _LENGTHS.get(length, 2)
        known = first == _BINARY or (first in _CONTROL and length <= _SHORT)
        self._odd = not known or (buffer[1] < _MASKED) is not self._client
        if not self._odd and length > _SHORT:
            if len(buffer) < start:
                return None
            length = int.from_bytes(buffer[2:start], "big")
            self._odd = length > (self._websocket.max_message_size or 0)
        if self._odd:
            return 0, _PIECE
        start += 0 if self._client else _KEY
        return (start, start + length) if len(buffer) >= start + length else None

    def _by_library(self, size: int) -> list[Event]:
        piece = bytes(self._buffer[:size])
        del self._buffer[:size]
        self._websocket.receive_data(piece)
        return self._websocket.events_received()

    def write(self, data: bytes) -> bytes:
        """Return the bytes of a whole binary frame; the connection is open."""
        length, masked = len(data), _MASKED if self._client else 0
        if length <= _SHORT:
            head = bytes((_BINARY, masked | length))
        elif length < 1 << 16:
            head = struct.pack(">BBH", _BINARY, masked | 126, length)
        else:
            head = struct.pack(">BBQ", _BINARY, masked | 127, length)
        if not self._client:
            return head + data
        key = os.urandom(_KEY)
        return head + key + apply_mask(data, key)
