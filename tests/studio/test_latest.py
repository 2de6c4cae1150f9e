"""Of many questions only the newest is answered."""

import asyncio
import threading

from tacit.studio.latest import Latest


def test_plans_that_were_overtaken_are_dropped():
    asked, shown, go = [], [], threading.Event()

    def work(question):
        asked.append(question)
        go.wait(10)
        return question * 10

    async def main():
        latest = Latest(work, shown.append)
        first = asyncio.create_task(latest.ask(1))
        while not asked:
            await asyncio.sleep(0)
        for question in (2, 3, 4):
            await latest.ask(question)  # returns at once: the first is still being thought about
        assert shown == []
        go.set()
        await first
        await latest.ask(5)

    asyncio.run(main())
    assert asked == [1, 4, 5]
    assert shown == [40, 50]


def test_after_a_failure_the_next_question_is_answered():
    shown = []

    async def main():
        latest = Latest(lambda question: 1 // question, shown.append)
        try:
            await latest.ask(0)
        except ZeroDivisionError:
            await latest.ask(1)

    asyncio.run(main())
    assert shown == [1]
