"""What a hub keeps of a series under way: members, means, lost slots."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, final

from tacit.core.protocol.answer import kept_answer
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.notices import MeanPublished
from tacit.core.protocol.records import Closed, Record
from tacit.core.protocol.standing import MOST_SHOWN, AnswerPart, Loss, Standing
from tacit.core.series import written
from tacit.core.theory.advice import absences
from tacit.live.fleet.store import SlotMean
from tacit.live.runtime.transcript import own_frame
from tacit.live.sessions.series import explain_series

if TYPE_CHECKING:
    from tacit.core.protocol.session import Session
    from tacit.live.fleet.store import HubStore


@final
class SeriesProgress:
    """Writes the mean of each slot into the hub's store, from saved records.

    Records that were saved before a restart come first. So a mean that a killed hub had not written is
    written then. All of it is public.
    """

    def __init__(self, session: Session, store: HubStore) -> None:
        assert session.series is not None
        self._session, self._store, self._series = session, store, session.series
        self._codec, self._decoder = (
            Codec(session),
            session.series.decoder(len(session.keepers), session.question),
        )
        self._members = 0
        self._written = store.slots_written(session.id)
        self._answers: dict[str, str] = {}
        last = store.last_mean(session.id)
        nothing: dict[str, Any] = {
            "slot": None,
            "mean": None,
            "used": 0,
            "members": 0,
            "deviation": None,
            "incomplete_before": 0,
        }
        self._last = nothing if last is None else nothing | dict(last)
        self._lost = 0
        self._deviation = explain_series(session).deviation
        self.changed = False
        """Whether there are answers that are not in the store yet; the hub writes them."""

    def take(self, records: Iterable[Record]) -> None:
        """Write the means of slots that are over."""
        for record in records:
            if isinstance(record, Closed):
                self._end_slot(record)

    def _end_slot(self, record: Closed) -> None:
        slot, used = record.round, record.used
        total = own_frame(self._codec, record.frame).numbers
        self._members |= sum(1 << who for who in used)
        self._decoder.add(total, len(used), self._members.bit_count())
        self._lost += not used
        if slot < self._written and slot != self._last["slot"]:
            return  # to add a sum is cheap, to compute its mean again is not
        found = MeanPublished.of(self._decoder)
        mean = self._kept(found)
        if mean is not None:
            how = {"deviation": found.deviation, "incomplete_before": found.incomplete_before}
            members = self._members.bit_count()
            self._last = {"slot": slot, "mean": mean, "used": len(used), "members": members, **how}
        if slot < self._written:
            return
        row = (slot, mean, len(used), self._members.bit_count())
        self._store.publish_mean(self._session.id, row, self.facts())
        self._written = slot + 1

    def _kept(self, slot: MeanPublished) -> SlotMean:
        """Return the mean that is kept: of a question as it is, for its intervals."""
        if slot.mean is None or self._session.asked is None:
            return None if slot.mean is None else self._session.shown(slot.mean)
        return list(slot.mean) if isinstance(slot.mean, tuple) else [slot.mean]

    def _answer(self) -> dict[str, Any] | None:
        """Return what the last mean says to the question, if there is one."""
        last = self._last
        if self._session.asked is None or last["mean"] is None or last["deviation"] is None:
            return None
        answer = kept_answer(self._session, last["mean"], last["members"], last["deviation"])
        return answer.as_dict()

    def show(self, now: Standing) -> None:
        """Show what the records say, also of slots before a restart."""
        last, session = self._last, self._session
        now.round, now.lost, now.incomplete = (
            self._decoder.slot,
            self._lost,
            self._decoder.incomplete(session.n),
        )
        now.loss = Loss(planned=self._series.loss)
        if last["mean"] is not None:
            now.used, now.deviation = last["used"], last["deviation"]
            if session.asked is None:
                now.feedback = last["mean"] if isinstance(last["mean"], list) else [last["mean"]]
            else:
                parts = session.asked.decode(last["mean"], last["members"]).parts[:MOST_SHOWN]
                now.answer = [AnswerPart(part.name, part.estimate) for part in parts]
            now.absences = absences(last["used"], session.n, last["incomplete_before"]) or None

    def answered(self, name: str, why: str) -> None:
        """Note that a member takes part, or why not in one word."""
        self._answers[name] = why
        self.changed = True

    def taken(self) -> dict[str, Any]:
        """Return the facts, to be written now."""
        self.changed = False
        return self.facts()

    def facts(self) -> dict[str, Any]:
        """Return what is promised and what came of it so far, ready for JSON."""
        session, series = self._session, self._series
        # `take` calls this on the thread that saves, and the event loop may add an answer meanwhile. A copy
        # is made in one step. Iterating over the original could raise an error, which would end the series.
        answers = self._answers.copy()
        asked = session.asked
        return {
            "mean": self._last["mean"] if asked is None else None,
            **({} if asked is None else {"answer": self._answer()}),
            "slot": self._last["slot"],
            "used": [self._last["used"]],
            "deviation": self._last["deviation"],
            "incomplete": self._decoder.incomplete(session.n),
            "incomplete_before": self._last["incomplete_before"],
            "over": self._decoder.slot,
            "lost": self._lost,
            "agents": session.n,
            "keepers": len(session.keepers),
            "members": self._members.bit_count(),
            "joined": sorted(name for name, why in answers.items() if not why),
            "refused": {name: why for name, why in sorted(answers.items()) if why},
            "series": {
                "slots": series.slots,
                "interval": series.interval,
                "begins": series.begins,
                "ends": series.ends,
                "hides": written(session.hidden or series.hides),
                "loss": series.loss,
                "delta": series.delta,
                "deviation": self._deviation,
            },
        }
