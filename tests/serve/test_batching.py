"""What waits is worked on together, and everybody gets what is theirs."""

import asyncio
import threading
from collections.abc import Sequence

import pytest
from tests.serve.service import finished

from prunnet.serve.batching import Batcher


def test_what_arrives_while_a_batch_runs_becomes_the_next() -> None:
    sizes: list[int] = []
    begun, go_on = threading.Event(), threading.Event()

    def work(key: str, items: Sequence[int]) -> list[str]:
        if items[0] == 0:
            begun.set()
            assert go_on.wait(60)
        return [f"{key}{item}" for item in items]

    async def ask() -> list[str]:
        batcher = Batcher(work, 3, sizes.append)
        first = asyncio.create_task(batcher("a", 0))
        await asyncio.to_thread(begun.wait)
        others = [asyncio.create_task(batcher(key, item)) for item in range(1, 6) for key in "ab"]
        await asyncio.sleep(0)
        go_on.set()
        return await asyncio.gather(first, *others)

    assert finished(ask()) == ["a0", *(f"{key}{item}" for item in range(1, 6) for key in "ab")]
    assert sizes == [1, 3, 3, 2, 2]  # three at most, and no key waits for all of another


def test_what_fails_is_told_to_those_who_asked_for_it_alone() -> None:
    def work(key: str, items: Sequence[int]) -> Sequence[int]:
        if key == "wrong":
            raise ValueError("wrong")
        return items

    async def ask() -> list[int | BaseException]:
        batcher = Batcher(work, 8)
        asked = [batcher(key, item) for item, key in enumerate(("right", "wrong", "right", "wrong"))]
        return await asyncio.gather(*asked, return_exceptions=True)

    found = finished(ask())
    assert found[0::2] == [0, 2] and all(isinstance(error, ValueError) for error in found[1::2])


def test_who_has_given_up_is_left_out() -> None:
    seen: list[int] = []
    begun, go_on = threading.Event(), threading.Event()

    def work(key: str, items: Sequence[int]) -> Sequence[int]:  # noqa: ARG001
        if not begun.is_set():
            begun.set()
            assert go_on.wait(60)
        seen.extend(items)
        return items

    async def ask() -> None:
        batcher = Batcher(work, 8)
        first = asyncio.create_task(batcher("a", 1))
        await asyncio.to_thread(begun.wait)
        late, other = asyncio.create_task(batcher("a", 2)), asyncio.create_task(batcher("a", 3))
        await asyncio.sleep(0)
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late
        first.cancel()  # even the one that is being worked on
        go_on.set()
        assert await other == 3

    finished(ask())
    assert seen == [1, 3]
