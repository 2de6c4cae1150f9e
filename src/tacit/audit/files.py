r"""Transcripts in files: one session, one file of JSON lines.

The first line says what was declared, each other line what was heard, in the order it was heard::

    {"tacit_transcript": 1, "topology": "server", "agents": 2, "kind": "fading",
     "mixing": 0.8, "noise": 10, "decay": 0.6}                              (one line)
    {"round": 0, "agent": 0, "update": 0, "x": 3.25}
    {"round": 0, "agent": 1, "update": 0, "x": -1.5}
    {"round": 0, "y": 0.875}

- ``topology`` is ``server`` or ``graph``; a graph has ``edges``, pairs of agents, and feedback lines
  that name their agent.
- ``mixing``, ``noise`` and ``decay`` are one number or one per agent; ``kind`` is the noise law: ``fading``,
  ``one-shot`` or ``constant`` (no decay).
- ``update`` is how many updates the agent says it has made. Two lines for one agent and round: it was
  asked again. No line: nothing was heard from it.
- x and y are numbers, or lists of them. A message may say that it is a whole multiple of 2^exponent:
  ``"exponent": -37``. With ``"lattice": {"low": …, "high": …, "state_exponent": …, "bits": …,
  "reach_exponent": …}`` in the first line all numbers are whole: messages in steps of 2^exponent, which
  each must say, feedback in steps of 2^state_exponent.
- ``{"round": 3, "agent": 1, "heard": false}`` says that agent 1 did not use the feedback of round 3.
  Needed only where its next message's ``update`` leaves open which feedback it missed.

Other keys are ignored, and so are lines with a ``note``: a runtime adds signatures. What a crash left of a
last line, and a last round without its feedback, are left out. A folder of such files, ``*.jsonl``, are
sessions of one mechanism; if the auditor chose the values, ``inputs.json`` has them:
``{"values": [0, 1]}``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.arrays import FloatArray, as_states
from tacit.audit.parsing import VERSION, Declared, read_lines, session
from tacit.audit.transcript import Transcripts
from tacit.errors import FileError
from tacit.mechanism import ClientServer, Distributed

INPUTS = "inputs.json"
_LATTICE = ("low", "high", "state_exponent", "bits", "reach_exponent")


def write_folder(folder: Path | str, transcripts: Transcripts, values: npt.ArrayLike | None = None) -> None:
    """Write every session to a file of its own; `values` only where they are the auditor's choice."""
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    for run in range(transcripts.runs):
        write_transcript(where / f"{run:06d}.jsonl", transcripts, run)
    if values is not None:
        chosen = as_states(values, transcripts.mechanism.n)
        (where / INPUTS).write_text(json.dumps({"values": chosen.tolist()}) + "\n", encoding="utf-8")


def write_transcript(path: Path | str, transcripts: Transcripts, run: int = 0) -> None:
    """Write one session to a file."""
    lines = [json.dumps(line) for line in (_header(transcripts), *_events(transcripts, run))]
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_folder(folder: Path | str) -> tuple[Transcripts, FloatArray | None]:
    """Read all sessions of a folder, and the values if they are the auditor's choice."""
    where = Path(folder)
    paths = sorted(where.glob("*.jsonl"))
    if not paths:
        raise FileError(f"{folder}: there must be transcripts, files ending in .jsonl, and there is none.")
    sessions: list[Transcripts] = []
    declared: Declared | None = None
    for path in paths:
        found, events = read_lines(path)
        if declared is not None and not declared.same(found):
            raise FileError(
                f"{path} declares another mechanism than {paths[0].name}: keep them in folders apart."
            )
        declared = declared or Declared(path, found)
        sessions.append(session(path, declared, events))
    known = where / INPUTS
    return Transcripts.join(sessions), _inputs(known, sessions[0].mechanism.n) if known.exists() else None


def read_transcript(path: Path | str) -> Transcripts:
    """Read one session from a file."""
    where = Path(path)
    header, events = read_lines(where)
    return session(where, Declared(where, header), events)


def _inputs(path: Path, n: int) -> FloatArray:
    try:
        return as_states(json.loads(path.read_text(encoding="utf-8"))["values"], n)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError):
        raise FileError(f'{path} must hold {{"values": […]}}, one for each of the {n} agents.') from None


def _header(t: Transcripts) -> dict[str, Any]:
    law = t.mechanism.law
    header: dict[str, Any] = {"tacit_transcript": VERSION}
    header |= {
        "topology": "server" if isinstance(t.mechanism, ClientServer) else "graph",
        "agents": t.mechanism.n,
    }
    if isinstance(t.mechanism, Distributed):
        header["edges"] = t.mechanism.graph.edges().tolist()
    header |= {"kind": law.name}
    header |= {word: np.asarray(value).tolist() for word, value in law.worded().items()}
    if t.wholes is not None:
        header["lattice"] = {name: getattr(t.wholes.lattice, name) for name in _LATTICE}
    return header


def _events(t: Transcripts, run: int) -> Iterator[dict[str, Any]]:
    """What was heard, in order."""
    x, y = (t.x[run], t.y[run]) if t.wholes is None else (t.wholes.x[run], t.wholes.y[run])
    update = t.update[run if len(t.update) > 1 else 0]
    on_graph = not isinstance(t.mechanism, ClientServer)
    for slot, now in enumerate(t.rounds_of.tolist()):
        for agent in range(t.mechanism.n):
            if not np.isnan(t.x[run, slot, agent]).any():
                line = {"round": now, "agent": agent, "update": int(update[slot, agent])}
                line["x"] = np.asarray(x[slot, agent]).tolist()
                if t.exponent is not None:
                    line["exponent"] = int(t.exponent[run if len(t.exponent) > 1 else 0, slot, agent])
                yield line
        if slot + 1 == len(t.rounds_of) or t.rounds_of[slot + 1] > now:
            heard = (
                update[slot + 1] > update[slot]
                if slot + 1 < len(t.rounds_of)
                else np.ones(t.mechanism.n, bool)
            )
            for agent in np.flatnonzero(~heard).tolist():
                yield {"round": now, "agent": agent, "heard": False}
            for agent in range(t.mechanism.n if on_graph else 1):
                name = {"agent": agent} if on_graph else {}
                yield {"round": now, **name, "y": np.asarray(y[now, agent] if on_graph else y[now]).tolist()}
