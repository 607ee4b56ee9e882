"""Reading ahead: the next item of an iterator is made in another thread while the present one is used."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from enum import Enum
from typing import TypeVar

T = TypeVar("T")


class _End(Enum):
    END = 0


def ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield what `items` yields, one item being made while another is used; errors come in their turn.

    A consumer who stops, or fails, does not wait for the item that is being made.
    """
    made: queue.SimpleQueue[Future[T | _End]] = queue.SimpleQueue()
    wanted = threading.Semaphore(1)
    stopped = threading.Event()

    def work() -> None:
        while wanted.acquire() and not stopped.is_set():
            coming: Future[T | _End] = Future()
            try:
                coming.set_result(next(items, _End.END))
            except BaseException as error:  # handed over, to be raised where it is awaited
                coming.set_exception(error)
            made.put(coming)

    threading.Thread(target=work, name="recshard-read", daemon=True).start()
    try:
        while not isinstance(item := made.get().result(), _End):
            wanted.release()
            yield item
    finally:
        stopped.set()
        wanted.release()
