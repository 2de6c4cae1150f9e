"""A proxy between a hub and its database that can hang, cut, and lose an answer.

It is a process of its own: a busy test must not make the database slow. It reads its mode from standard
input, and writes its port and each answer that it lost.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress


class Proxy:
    """Forwards connections to the database, until it is told otherwise.

    `mode` is "pass"; "hang", which lets nothing through; "cut", which ends all connections and takes none; or
    "lose", which ends the next connection whose server answers a statement that saves records, before the
    answer gets through. Nobody knows then whether it was saved.
    """

    def __init__(self, to: int) -> None:
        self._to, self.mode = to, "pass"
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def set(self, mode: str) -> None:
        self.mode = mode
        if mode == "cut":
            for pair in tuple(self._pairs):
                self._end(pair)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
                if self.mode == "cut":
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                if self._listening.fileno() < 0:
                    return
                with suppress(OSError):
                    near.close()
                continue
            pair = (near, far)
            self._pairs.add(pair)
            saving = threading.Event()
            for one, other, up in ((near, far, True), (far, near, False)):
                threading.Thread(target=self._pump, args=(pair, one, other, saving, up), daemon=True).start()

    def _pump(self, pair, one, other, saving, up) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                while self.mode == "hang":
                    time.sleep(0.02)
                if up and b"INSERT INTO log" in data:
                    saving.set()
                if not up and saving.is_set():
                    saving.clear()
                    if self.mode == "lose":
                        self.mode = "pass"
                        print("lost", flush=True)
                        break
                other.sendall(data)
        self._end(pair)

    def _end(self, pair) -> None:
        self._pairs.discard(pair)
        for one in pair:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class ProxyProcess:
    """A `Proxy` in a process of its own."""

    def __init__(self, to: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(to)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.port, self.lost = int(self._process.stdout.readline()), 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for _ in self._process.stdout:
            self.lost += 1

    def set(self, mode: str) -> None:
        """Change what it does."""
        print(mode, file=self._process.stdin, flush=True)

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stdin.close()
        self._process.stdout.close()


def main() -> None:
    """Forward until standard input ends."""
    proxy = Proxy(int(sys.argv[1]))
    print(proxy.port, flush=True)
    for line in sys.stdin:
        proxy.set(line.strip())


if __name__ == "__main__":
    main()
