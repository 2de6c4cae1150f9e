"""A hub with two keepers asks its agents every question; what they answer is recomputed from the transcript.

``python -m tests.end_to_end.test_questions 50`` runs it for so many agents, and prints each answer beside the
truth.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

import pytest
from tests.runtime.fleets import Fleet, following, refusals

from tacit.core.question import parse_question
from tacit.live.fleet.hub_report import SessionReport
from tacit.live.fleet.policy import accepted_question
from tacit.live.verification.verdict import verify

KEEPERS = ("north", "south")
ACCEPTED = {
    "mean": "load=mean:0:10",
    "sum": "load=sum:0:10",
    "count": "solar=count",
    "histogram": "load=histogram:-inf,1,2,5,inf",
    "labels": "town=histogram:hill,lake",
    "quantile": "load=quantile:0,1,2,3,4,5,6,8,10:0.45,0.93",
    "variance": "load=variance:0:10",
    "weighted": "people,load=weighted-mean:0:10:6",
    "groups": "town,load=group-by:hill,lake:mean:0:10",
    "several": "solar,load=count+histogram:0,2,5,10",
}


def records(agents):
    """One household for each agent; some loads are off the domain, and some towns are not named."""
    towns = ("hill", "lake", "wood")
    return [
        {"load": 0.3 + 17 * i % 11, "solar": i % 3 == 0, "town": towns[i % 3], "people": 1 + i % 5}
        for i in range(agents)
    ]


async def ask_all(folder, agents, *, loss=1.0, keepers=KEEPERS, questions=tuple(ACCEPTED)):
    """Return the hub's report and the verifier's verdict for each question."""
    fleet, names = Fleet(folder, transcripts=folder), [f"house-{i}" for i in range(agents)]
    held = dict(zip(names, records(agents), strict=True))
    async with fleet.serving() as hub:
        for name in (*keepers, *names):
            await fleet.enrol(name)
            role = "keeper" if name in keepers else "agent"
            place = folder / f"{name}.json"
            place.touch(mode=0o600)
            place.write_text(json.dumps(held.get(name)))
            table = {"file": place.name, "low": None, "high": None, "accept": tuple(ACCEPTED.values())}
            fleet.policy(
                name, role=role, trust=keepers, value_table=table, **({"cap": 1e6} if role == "agent" else {})
            )
        found = {}
        async with following(fleet, *keepers, *names):
            for word in questions:
                asked = {"question": ACCEPTED[word].split("=")[1], "loss": loss}
                more = {"keepers": keepers, "least": agents, "anyway": True}
                [(state, result)] = await fleet.run(word, question=asked, **more)
                found[word] = SessionReport(word, state, result), verify(folder / f"{word}.jsonl")
            asked = {"question": "histogram:0,1,2,5,10", "loss": loss}  # other edges: nobody takes part
            await fleet.run("other", question=asked, **more, start_deadline=0.1)
        assert refusals(hub) == {"question": agents}
        assert "load" not in repr(fleet.told)
    return found


def truth(word, agents):
    """What the question would find out without noise, of the same records."""
    question, names = accepted_question(ACCEPTED[word])
    rows = [question.record([one[name] for name in names]) for one in records(agents)]
    vectors = [question.encode(row).vector for row in rows]
    return question.decode([float(sum(column)) / agents for column in zip(*vectors, strict=True)], agents)


def check(found, agents):
    for word, (report, verdict) in found.items():
        assert (report.state, verdict.word) == ("finished", "sound"), word
        true = {part.name: part.estimate for part in truth(word, agents).parts}
        if word == "mean":
            assert report.result["mean"] == pytest.approx(true["mean"], abs=0.3)
            continue
        answer = report.result["answer"]
        assert answer == json.loads(json.dumps(verdict.answer.as_dict())), word  # recomputed from frames
        assert (answer["records"], parse_question(answer["question"])) == (agents, verdict.session.asked)
        names = [part["name"] for part in answer["parts"]]
        assert names == list(true), word
        for part in (*answer["parts"], *answer["together"]):
            assert part["low"] <= part["estimate"] <= part["high"]
            assert part["estimate"] == pytest.approx(true[part["name"]], abs=0.3), (word, part)


def test_a_hub_asks_five_agents_two_questions(tmp_path):
    """The loss is so large that no answer is 0.3 off: that has a probability below 1e-9."""
    quick = ("quantile", "several")  # each takes seconds; the long test below asks all
    check(asyncio.run(ask_all(tmp_path, 5, loss=2000.0, questions=quick)), 5)


@pytest.mark.long
def test_a_hub_asks_fifty_agents_every_question(tmp_path):
    check(asyncio.run(ask_all(tmp_path, 50, loss=2000.0)), 50)


def test_without_keepers_every_agent_adds_its_own_noise(tmp_path):
    asked = ("histogram",)
    check(asyncio.run(ask_all(tmp_path, 3, loss=2000.0, keepers=(), questions=asked)), 3)


def main(agents, loss):
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(ask_all(Path(folder), agents, loss=loss))
    for word, (report, verdict) in found.items():
        print(report)
        true = ", ".join(f"{part.name} {part.estimate:.6g}" for part in truth(word, agents).parts)
        print(f"   truth: {true}\n   verdict: {verdict.word}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), float((sys.argv[2:] or [1])[0]))
