"""Requests that wait are worked on together: what has arrived while the last batch ran becomes the next one."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Result = TypeVar("Result")


class Batcher(Generic[Key, Item, Result]):
    """`await batcher(key, item)` is one of the results of `work(key, items)`, which runs in a thread of its own.

    Nobody waits for a batch to fill: one that finds the thread idle is worked on at once.

    work: gives a result for each item; what it raises is raised for each.
    most: items in a batch.
    told: is called with the size of each batch.
    """

    def __init__(
        self,
        work: Callable[[Key, Sequence[Item]], Sequence[Result]],
        most: int,
        told: Callable[[int], None] = lambda size: None,  # noqa: ARG005
    ) -> None:
        self._work = work
        self._most = most
        self._told = told
        self._waiting: dict[Key, list[tuple[Item, asyncio.Future[Result]]]] = {}
        self._thread = ThreadPoolExecutor(1)
        self._task: asyncio.Task[None] | None = None

    async def __call__(self, key: Key, item: Item) -> Result:
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append((item, future))
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        try:
            while self._waiting:
                key = next(iter(self._waiting))
                asked = self._waiting.pop(key)
                if len(asked) > self._most:
                    self._waiting[key] = asked[self._most :]  # behind the other keys
                still = [pair for pair in asked[: self._most] if not pair[1].done()]  # the others ran out of time
                if still:
                    await self._answer(key, still)
        finally:
            self._task = None

    async def _answer(self, key: Key, asked: Sequence[tuple[Item, "asyncio.Future[Result]"]]) -> None:
        self._told(len(asked))
        items = [item for item, _ in asked]
        try:
            results = await asyncio.get_running_loop().run_in_executor(self._thread, self._work, key, items)
        except Exception as error:
            for _, future in asked:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), result in zip(asked, results, strict=True):
            if not future.done():
                future.set_result(result)
