"""Frames read by our few lines, against the library that reads all of it."""

import os
import random

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from tacit.live.transport.frames import Frames

MOST = 70_000
LENGTHS = (0, 1, 125, 126, 127, 65_535, 65_536, MOST)


def pair():
    """Return a client and a server whose handshake is over, each with its reader."""
    client = ClientProtocol(parse_uri("ws://example.org/"), max_size=MOST)
    server = ServerProtocol(max_size=MOST)
    client.send_request(client.connect())
    ours = {client: Frames(client), server: Frames(server)}
    ours[server].feed(b"".join(client.data_to_send()))
    [request] = ours[server].read()
    server.send_response(server.accept(request))
    ours[client].feed(b"".join(server.data_to_send()))
    assert len(ours[client].read()) == 1
    assert client.state is server.state is OPEN
    return client, server, ours


def heard(frames):
    """Return everything that is read now: frames, and what the library made of the rest."""
    found = []
    while (read := frames.read()) is not None:
        found += [read] if isinstance(read, bytes) else events(read)
    return found


def events(found):
    whole = [e.opcode is Opcode.BINARY and e.fin for e in found]
    return [bytes(e.data) if w else (e.opcode, bytes(e.data)) for e, w in zip(found, whole, strict=True)]


def by_library(protocol, data):
    protocol.receive_data(data)
    return events(protocol.events_received())


def in_pieces(rng, data):
    while data:
        size = rng.choice([1, 2, 3, 7, 100, 5000, len(data)])
        yield data[:size]
        data = data[size:]


@pytest.mark.parametrize("speaker", [0, 1], ids=["client", "server"])
def test_what_is_written_is_what_the_library_writes_and_reads(speaker):
    client, server, ours = pair()
    say, hear = (client, server) if speaker == 0 else (server, client)
    for length in LENGTHS:
        data = os.urandom(length)
        written = ours[say].write(data)
        assert by_library(hear, written) == [data]
        if speaker == 1:  # without a random mask even the bytes are the same
            assert written == Frame(Opcode.BINARY, data).serialize(mask=False)


def test_each_mask_is_new():
    client, _, ours = pair()
    masks = {ours[client].write(b"x")[2:6] for _ in range(100)}
    assert len(masks) == 100


@pytest.mark.parametrize("speaker", [0, 1], ids=["client", "server"])
@pytest.mark.parametrize("seed", range(20))
def test_any_mixture_in_any_pieces_is_read_as_by_the_library(seed, speaker):
    rng = random.Random(seed)
    client, server, ours = pair()
    twin_client, twin_server, _ = pair()
    hear, twin = (server, twin_server) if speaker == 0 else (client, twin_client)
    data = b""
    for _ in range(30):
        opcode = rng.choice([Opcode.BINARY] * 6 + [Opcode.PING, Opcode.PONG])
        length = rng.choice([0, 5, 125] if opcode is not Opcode.BINARY else [0, 7, 125, 126, 300, 65_536])
        data += Frame(opcode, rng.randbytes(length)).serialize(mask=speaker == 0)
    found = []
    for piece in in_pieces(rng, data):
        ours[hear].feed(piece)
        found += heard(ours[hear])
    assert found == by_library(twin, data)
    if hear is server:  # it answers the same pings; a client's masks are random
        assert b"".join(hear.data_to_send()) == b"".join(twin.data_to_send())


def odd(kind, mask):
    """Return bytes that are no whole binary frame of a length that is allowed."""
    whole = Frame(Opcode.BINARY, b"abc").serialize(mask=mask)
    masked = 0x80 if mask else 0
    return {
        "text": Frame(Opcode.TEXT, b"abc").serialize(mask=mask),
        "begun": Frame(Opcode.BINARY, b"abc", fin=False).serialize(mask=mask),
        "continued": Frame(Opcode.CONT, b"abc").serialize(mask=mask),
        "long": Frame(Opcode.BINARY, bytes(MOST + 1)).serialize(mask=mask),
        "endless": bytes((0x82, masked | 127)) + b"\xff" * 8,
        "masked wrongly": Frame(Opcode.BINARY, b"abc").serialize(mask=not mask),
        "extended": bytes((whole[0] | 0x40,)) + whole[1:],
        "unknown": bytes((0x83,)) + whole[1:],
        "long ping": bytes((0x89, masked | 126, 0, 126)) + bytes(4 * mask + 126),
        "close": Frame(Opcode.CLOSE, b"\x03\xe8").serialize(mask=mask),
    }[kind]


KINDS = ("text", "begun", "continued", "long", "endless", "extended", "unknown", "close")


@pytest.mark.parametrize("speaker", [0, 1], ids=["client", "server"])
@pytest.mark.parametrize("kind", [*KINDS, "masked wrongly", "long ping"])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_odd_is_judged_by_the_library_with_all_behind_it(kind, speaker, seed):
    rng = random.Random(seed)
    client, server, ours = pair()
    twin_client, twin_server, _ = pair()
    hear, twin = (server, twin_server) if speaker == 0 else (client, twin_client)
    mask = speaker == 0
    before = Frame(Opcode.BINARY, b"before").serialize(mask=mask)
    data = before + odd(kind, mask) + Frame(Opcode.BINARY, b"behind").serialize(mask=mask)
    found = []
    for piece in in_pieces(rng, data):
        ours[hear].feed(piece)
        found += heard(ours[hear])
    assert found == by_library(twin, data)
    if hear is server:  # a client's own masks are random
        assert hear.data_to_send() == twin.data_to_send()
    assert hear.state is twin.state
    assert (hear.close_sent, hear.close_rcvd) == (twin.close_sent, twin.close_rcvd)


def test_a_frame_in_the_same_bytes_as_the_handshake_is_read():
    rng = random.Random(1)
    for _ in range(50):
        client = ClientProtocol(parse_uri("ws://example.org/"), max_size=MOST)
        server = ServerProtocol(max_size=MOST)
        client.send_request(client.connect())
        frames = Frames(server)
        request = b"".join(client.data_to_send())
        said = [rng.randbytes(300) for _ in range(3)]
        later = b"".join(Frame(Opcode.BINARY, each).serialize(mask=True) for each in said)
        found = []
        for piece in in_pieces(rng, request + later):
            frames.feed(piece)
            while (read := frames.read()) is not None:
                if isinstance(read, bytes):
                    found.append(read)
                elif read:
                    [asked] = read
                    server.send_response(server.accept(asked))
        assert found == said


def test_a_frame_that_is_not_whole_waits_without_a_word():
    _, server, ours = pair()
    data = Frame(Opcode.BINARY, bytes(1000)).serialize(mask=True)
    for at in range(len(data) - 1):
        ours[server].feed(data[at : at + 1])
        assert ours[server].read() is None
    ours[server].feed(data[-1:])
    assert ours[server].read() == bytes(1000)
