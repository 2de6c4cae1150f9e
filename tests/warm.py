"""Processes of Python that are forked from one that has imported tacit: most of a start is imports.

A worker of the tests has one such parent. It has run nothing and has one thread, so what is forked from it is
as good as new.
"""

import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace

import tacit.live

CODE = "from tacit.cli import main; main()"
VERBS = ("coordinate", "join", "keep")


class Parent:
    """Forks processes on request; the other end of a socket of a process that runs `serve`."""

    def __init__(self):
        self._socket, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=plain(os.environ))

    def close(self):
        self._socket.close()
        self._process.wait()

    def ask(self, files=(), **what):
        socket.send_fds(self._socket, [json.dumps(what).encode() + b"\n"], files)
        answer = b""
        while not answer.endswith(b"\n"):
            answer += self._socket.recv(1 << 16)
        return json.loads(answer)

    def start(self, command, *, stdout, stderr, stdin=subprocess.DEVNULL, env=None, cwd=None, **more):
        """Do as `subprocess.Popen`. What is not a command of tacit, or a program, is started by that."""
        words, told = [str(word) for word in command], {"stdout": stdout, "stderr": stderr, "stdin": stdin}
        if words[:2] != [sys.executable, "-c"]:
            return subprocess.Popen(command, env=env, cwd=cwd, **told, **more)
        where, env = os.fspath(cwd or os.getcwd()), dict(env or os.environ)
        words[1:2] = ["tacit"] if words[2] == CODE else words[1:2]
        with open(os.devnull, "rb") as nothing:
            files = [nothing.fileno(), stdout.fileno(), stderr.fileno()]
            return Forked(
                self, self.ask(files, code=words[2], words=[words[1], *words[3:]], env=env, cwd=where)
            )

    def run(self, command, *, check=False, timeout=None, text=False, env=None, cwd=None, **more):
        """Do as `subprocess.run` with `capture_output`; what else is asked of that is done by it."""
        if [str(word) for word in command[:2]] != [sys.executable, "-c"] or set(more) != {"capture_output"}:
            return subprocess.run(command, check=check, timeout=timeout, text=text, env=env, cwd=cwd, **more)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            code = self.start(command, stdout=out, stderr=errors, env=env, cwd=cwd).wait(timeout)
            said = []
            for file in (out, errors):
                file.seek(0)
                said.append(file.read().decode() if text else file.read())
        done = subprocess.CompletedProcess(command, code, *said)
        if check:
            done.check_returncode()
        return done

    @property
    def subprocess(self):
        """Stand in for the module, where a test module calls it."""
        return SimpleNamespace(**vars(subprocess) | {"Popen": self.start, "run": self.run})


class Forked:
    """The part of `subprocess.Popen` that tests use."""

    def __init__(self, parent, pid):
        self._parent, self.pid, self.returncode = parent, pid, None

    def poll(self):
        if self.returncode is None:
            self.returncode = self._parent.ask(poll=self.pid)
        return self.returncode

    def wait(self, timeout=None):
        end = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired("tacit", timeout)
            time.sleep(0.01)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def plain(env):
    """An environment without what pytest has put there, with one thread: a fork has no others."""
    one = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
    return {name: text for name, text in env.items() if not name.startswith("PYTEST")} | one


def serve(end):
    """Fork a process for each request, until the other end is closed; return its code in each of them."""
    for verb in VERBS:
        importlib.import_module(f"tacit.cli.{verb}")
    for name in tacit.live.__all__:  # loads its module
        getattr(tacit.live, name)
    gc.freeze()
    while True:
        text, files, _, _ = socket.recv_fds(end, 1 << 20, 3)
        while text and not text.endswith(b"\n"):
            text += end.recv(1 << 20)
        if not text:
            os._exit(0)
        asked = json.loads(text)
        if "poll" in asked:
            pid, status = os.waitpid(asked["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        elif (answer := os.fork()) == 0:
            end.close()
            become(asked, files)
            return asked["code"]
        for file in files:
            os.close(file)
        end.sendall(json.dumps(answer).encode() + b"\n")


def become(asked, files):
    """Be the process that was asked for: its files, directory, environment and words."""
    os.setsid()
    for place, file in enumerate(files):
        os.dup2(file, place)
        os.close(file)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.argv = asked["words"]


if __name__ == "__main__":
    sys.path[0] = ""  # as with -c
    wanted = serve(socket.socket(fileno=int(sys.argv[1])))
    exec(compile(wanted, "<string>", "exec"), {"__name__": "__main__"})
