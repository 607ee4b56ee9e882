"""Reading ahead: the next item of an iterator is made in another thread while the present one is used."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import TypeVar

T = TypeVar("T")


class _End(Enum):
    END = 0


def ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield what `items` yields, one item being made while another is used; errors come in their turn."""
    with ThreadPoolExecutor(1, thread_name_prefix="recshard-read") as pool:
        coming = pool.submit(next, items, _End.END)
        while not isinstance(item := coming.result(), _End):
            coming = pool.submit(next, items, _End.END)
            yield item
