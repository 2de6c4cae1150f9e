"""Accepts connections, and limits those that are not authenticated yet.

A stranger's connection costs a little memory for a few seconds and nothing else. If there are too many, the
oldest is dropped. A member shows its certificate within milliseconds, so a flood of strangers drops only
strangers.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import final

from tacit.live.transport.base import NetworkError
from tacit.live.transport.connection_diagnosis import require_endpoint
from tacit.live.transport.link import Link

_AT_ONCE = 64  # connections accepted before others have a turn
_BACKLOG = 1024
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


@final
class Listener:
    """Listens at some endpoints.

    Parameters
    ----------
    make : callable
        Makes the `Link` for a connection from an address.
    seconds : float
        A connection that is not admitted within this time is closed.
    most, most_per_address : int
        Maximum number of connections that wait to be admitted.
    """

    def __init__(
        self, make: Callable[[str], Link], *, seconds: float, most: int, most_per_address: int
    ) -> None:
        self._make, self._seconds = make, seconds
        self._most, self._most_per_address = most, most_per_address
        self._sockets: list[socket.socket] = []
        self._waiting: defaultdict[str, dict[Link, asyncio.TimerHandle]] = defaultdict(dict)
        self._count = 0
        self._making: set[asyncio.Task[object]] = set()
        self._spare = -1  # a file that is given up to refuse someone when there are no more files

    async def open(self, endpoint: str) -> None:
        """Listen at all addresses of an endpoint."""
        host, port = require_endpoint(endpoint)
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except OSError:
            raise NetworkError(f"{endpoint} cannot be listened at: no host has this name.") from None
        made, error = [], None
        for family, _, _, _, where in dict.fromkeys(found):
            try:
                made.append(socket.create_server(where[:2], family=family, backlog=_BACKLOG))
            except OSError as caught:
                error = caught
                if (
                    caught.errno != errno.EADDRNOTAVAIL
                ):  # localhost may have addresses that this machine lacks
                    break
        else:
            error = None if made else error
        if error is not None:
            for one in made:
                one.close()
            raise NetworkError(_sentence(endpoint, error)) from None
        if self._spare < 0:
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        for one in made:
            one.setblocking(False)
            self._sockets.append(one)
            loop.add_reader(one.fileno(), self._accept, one)

    def let_in(self, link: Link) -> None:
        """Stop counting a connection: it is authenticated, or closed.

        It may be called twice for the same connection.
        """
        group = source(link.address)
        waiting = self._waiting.get(group, {})
        if (timer := waiting.pop(link, None)) is not None:
            timer.cancel()
            self._count -= 1
            if not waiting:
                del self._waiting[group]

    def close(self) -> None:
        """Stop listening, and drop connections that are not admitted yet."""
        loop = asyncio.get_running_loop()
        for one in self._sockets:
            loop.remove_reader(one.fileno())
            one.close()
        self._sockets.clear()
        for group in list(self._waiting.values()):
            for link in list(group):
                link.abort()
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1

    def _accept(self, listening: socket.socket) -> None:
        # A bound for one turn: with a flood of connections, members that are connected must be heard, too.
        for _ in range(_AT_ONCE):
            try:
                made, where = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in _FULL:
                    self._make_room(listening)
                return
            made.setblocking(False)
            self._begin(made, str(where[0]))

    def _begin(self, made: socket.socket, address: str) -> None:
        # The limit for one address comes first. A stranger that reaches it drops only its own connections.
        # If there are too many altogether, the address with most of them loses its oldest.
        group = source(address)
        if len(self._waiting[group]) >= self._most_per_address:
            self._drop_oldest(group)
        elif self._count >= self._most:
            self._drop_oldest(self._largest)
        loop = asyncio.get_running_loop()
        link = self._make(address)
        # Cancelled only by `let_in`. A stranger that sends one byte at a time does not prolong it.
        late = loop.call_later(self._seconds, link.abort, TimeoutError())
        self._waiting[group][link] = late
        self._count += 1
        link.lost.add_done_callback(lambda _: self.let_in(link))
        task = loop.create_task(self._connect(link, made))
        self._making.add(task)  # asyncio keeps only weak references to tasks
        task.add_done_callback(self._making.discard)

    async def _connect(self, link: Link, made: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: link, made)
        except OSError as error:
            made.close()
            link.abort(error)
            self.let_in(link)

    @property
    def _largest(self) -> str:
        return max(self._waiting, key=lambda group: len(self._waiting[group]))

    def _drop_oldest(self, group: str) -> None:
        oldest = next(iter(self._waiting[group]))
        oldest.abort(TimeoutError())
        self.let_in(oldest)

    def _make_room(self, listening: socket.socket) -> None:
        """No file descriptor is left: drop the oldest stranger, or the new one.

        This must not sleep, because members may connect meanwhile. Doing nothing is no choice either: the
        connection would stay in the backlog, and the loop would call `_accept` again and again. To accept it
        takes a descriptor, so one is kept in reserve (`_spare`) and given up for that moment.
        """
        if self._count:
            self._drop_oldest(self._largest)
            return
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1
        with suppress(OSError):
            listening.accept()[0].close()
        with suppress(OSError):
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)


def source(address: str) -> str:
    """Return the network of one owner: an IPv4 address, or a /64 of IPv6."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return address if found.version == 4 else str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))


def _sentence(endpoint: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{endpoint} is in use already: stop what listens there, or choose another port."
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{endpoint} is not an address of this machine: listen at one that is, or at 0.0.0.0."
    return f"{endpoint} cannot be listened at: {error.strerror}."
