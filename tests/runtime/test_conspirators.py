"""A live coordinator that conspires with one of two keepers learns no more than the accounted loss.

Sessions of the real `Coordinator`, `Agent` and `Keeper`, with ledgers, key files and noise of the safe
source. Every frame is tapped. The conspirators are the coordinator, all wires, all agents but one, and one
keeper: each of the two in turn. They take their members' ephemeral keys from the disks.

Each component of the values is a trial of its own: a coin chose whether the victim's is 0 or 1, and they
guess. Whatever they look at, a guess is right with probability e^loss/(1 + e^loss) at most.
"""

import asyncio
import math

import numpy as np
import pytest
from scipy.stats import binom
from tests.doubles import small_session

import tacit.live.runtime.keeper
from tacit.core.mechanism.lattice import Lattice
from tacit.core.noise.safe import SafeNoise
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.masks import Party, agree, centred, mask, public_key, total
from tacit.core.protocol.messages import COORDINATOR, Feedback, Key, Masked, Message, Opening
from tacit.core.protocol.roster import Member
from tacit.core.protocol.session import Deadlines
from tacit.live.identity.identity import provision
from tacit.live.runtime.agent import Agent
from tacit.live.runtime.coordinator import Coordinator
from tacit.live.runtime.keeper import Keeper
from tacit.live.runtime.noise import noise_ahead
from tacit.live.transport.memory import MemoryNetwork

FALSE_ALARM, WAIT = 1e-6, 120
AGENTS, KEEPERS, VICTIM = ["a0", "a1", "a2"], ["north", "south"], 1
LENGTH = 600
SURE = 0.8  # they guess where the likelihood ratio is at least this share of the loss


@pytest.fixture
def keys(tmp_path):
    return provision(tmp_path / "keys", ["coordinator", *AGENTS, *KEEPERS], listening=["coordinator"])


def agreed(keys, name, kind):
    return small_session(
        keys,
        AGENTS,
        name=name,
        keepers=tuple(Member(keeper, keys[keeper].public_key) for keeper in KEEPERS),
        law=kind,
        noise=1.0 if kind == "one-shot" else 1.5,
        decay=None if kind == "one-shot" else 0.75,
        rounds=2,
        lattice=Lattice(0, 1),
        components=LENGTH,
        deadlines=Deadlines(round=30.0, start=30.0, repeat=5.0),
    )


class Tapped:
    """One live session: all frames, and the ephemeral keys of everyone, as they were on the disks."""

    def __init__(self, session, keys, folder, truth):
        self.session, self.codec, self.truth = session, Codec(session), truth
        self._keys, self._folder = keys, folder
        self.said, self.private = {}, {}
        asyncio.run(self._play())

    def _name(self, number):
        return "coordinator" if number == COORDINATOR else self.session.member_name(number)

    def _member(self, number, network):
        name = self._name(number)
        common = {
            "ledger": self._folder / f"{name}.ledger",
            "identity": self._keys[name],
            "transport": network.transport(number),
        }
        if number == COORDINATOR:
            return Coordinator(self.session, **common)
        if number >= self.session.n:
            return Keeper(self.session, **common)
        value = self.truth if number == VICTIM else np.full(LENGTH, 0.5)
        trust = {"north": self._keys["north"].public_key}
        return Agent(self.session, value.tolist(), cap=math.inf, trust=trust, **common)

    def _tap(self, sender, _to, frame):
        message = self.codec.open(frame)
        assert isinstance(message, Message)
        if sender != message.sender:
            return  # passed on
        match message.body:
            case Key():  # its private half is on the disk before it is said
                if sender not in self.private:
                    (file,) = self._folder.glob(f"{self._name(sender)}.ledger.*.ephemeral")
                    self.private[sender] = file.read_bytes()
            case Masked(update=u) | Opening(round=u) | Feedback(round=u):
                self.said[sender, type(message.body), u] = message

    async def _play(self):
        network = MemoryNetwork(self.session)
        network.taps.append(self._tap)

        async def run(number):
            async with self._member(number, network) as member:
                return await member.result()

        everyone = (COORDINATOR, *range(self.session.n + len(KEEPERS)))
        async with asyncio.timeout(WAIT):
            results = await asyncio.gather(*map(run, everyone))
        assert all(result.finished for result in results)


class Conspirators:
    """What the coordinator, every wire, all agents but one, and one of two keepers know after a session."""

    def __init__(self, tapped, keeper):
        self.session, self.said = tapped.session, tapped.said
        self.ours, self.honest = self.session.n + keeper, self.session.n + 1 - keeper
        self._public = {number: public_key(private) for number, private in tapped.private.items()}
        self._private = {
            number: private
            for number, private in tapped.private.items()
            if number not in (VICTIM, self.honest)
        }

    def secret(self, i, j):
        """The secret of agent i and keeper j, by the key of whichever of them is theirs."""
        own, other = (i, j) if i in self._private else (j, i)
        agent, keeper = (
            Party(self.session.member_name(k), self.session.key(k), self._public[k]) for k in (i, j)
        )
        return agree(
            self._private[own], self._public[other], session=self.session.id, agent=agent, keeper=keeper
        )

    def seen(self, u):
        """The victim's rounded state minus the honest keeper's noise, in message steps."""
        session, width, length = self.session, self.session.mask_bytes, self.session.masked_bytes
        report, opening = self.said[VICTIM, Masked, u], self.said[self.honest, Opening, u]
        salts = {i: self.said[i, Masked, u].body.salt for i in range(session.n)}
        others = [i for i in range(session.n) if i != VICTIM]
        known = [mask(self.secret(i, self.honest), u, salts[i], length) for i in others]
        away = [opening.body.numbers, mask(self.secret(VICTIM, self.ours), u, salts[VICTIM], length)]
        left = centred(total([report.body.numbers, *known], width, minus=away), width)
        return np.array(left, dtype=object)

    def likelihood_ratios(self):
        """log P(seen | the victim has 1) − log P(seen | it has 0), for each component."""
        agent, lattice = self.session.lattice_agent(VICTIM), self.session.lattice
        states = [np.full(LENGTH, lattice.start(value), dtype=object) for value in (1.0, 0.0)]
        ratio = np.zeros(LENGTH)
        for u in range(self.session.exchanges):
            shift = agent.message_exponent(u) - lattice.state_exponent
            one, zero = ((state + (1 << shift >> 1)) >> shift for state in states)
            seen = self.seen(u)
            ratio += ((abs(seen - zero) - abs(seen - one)) / agent.draw_scale(u)).astype(float)
            y = np.array(self.said[COORDINATOR, Feedback, u].numbers, dtype=object)
            states = [agent.update(state, y) for state in states]
        return ratio


def guessed(keys, folder, kind, sessions, rng):
    """Play sessions; for each keeper that conspires return how many guesses were right, of how many."""
    right, guesses, loss = [0, 0], [0, 0], None
    for number in range(sessions):
        session = agreed(keys, f"s{number}", kind)
        loss = session.account(VICTIM).total
        truth = rng.integers(2, size=LENGTH).astype(float)
        tapped = Tapped(session, keys, folder, truth)
        for keeper in range(2):
            ratios = Conspirators(tapped, keeper).likelihood_ratios()
            assert np.all(np.abs(ratios) <= loss * (1 + 1e-9))
            sure = np.abs(ratios) >= SURE * loss
            guesses[keeper] += int(sure.sum())
            right[keeper] += int(((ratios > 0) == (truth == 1.0))[sure].sum())
    return right, guesses, loss


def most(guesses, loss):
    """More right guesses than these have probability 1e-6 where the account is right."""
    return binom.ppf(1 - FALSE_ALARM, guesses, 1 / (1 + math.exp(-loss)))


@pytest.mark.parametrize("kind", ["fading", "one-shot"])
@pytest.mark.parametrize("sessions", [2, pytest.param(100, marks=pytest.mark.long)])
def test_they_learn_no_more_than_the_account_says(keys, tmp_path, kind, sessions):
    """From the bytes on the wires; each keeper in turn. And they do learn: the attack works."""
    right, guesses, loss = guessed(keys, tmp_path, kind, sessions, np.random.default_rng(sessions))
    for keeper in range(2):
        assert right[keeper] <= most(guesses[keeper], loss)
        assert right[keeper] >= binom.ppf(1 - FALSE_ALARM, guesses[keeper], 0.5)


class HalfTheScale:
    """A source of noise that is half as large as it is asked for."""

    def __init__(self):
        self._source = SafeNoise()

    def draw(self, scale, *size):
        return self._source.draw(scale / 2, *size)


@pytest.mark.parametrize("broken", [pytest.param(0, marks=pytest.mark.long), 1])
def test_a_keeper_that_draws_half_the_scale_is_found(keys, tmp_path, monkeypatch, broken):
    """The conspirators guess right more often than the account allows, where the other keeper is theirs."""
    real, made = Keeper._made, noise_ahead

    def make(keeper, ledger):
        source = HalfTheScale() if keeper.name == KEEPERS[broken] else None
        monkeypatch.setattr(tacit.live.runtime.keeper, "noise_ahead", lambda s, who: made(s, who, source))
        return real(keeper, ledger)

    monkeypatch.setattr(Keeper, "_made", make)
    right, guesses, loss = guessed(keys, tmp_path, "fading", 3, np.random.default_rng(1))
    against_the_broken_one, against_the_right_one = 1 - broken, broken
    assert right[against_the_broken_one] > most(guesses[against_the_broken_one], loss)
    assert right[against_the_right_one] <= most(guesses[against_the_right_one], loss)
