"""Descending to where no exchange between two devices helps, and out again: the outer kernels of `search`."""

from __future__ import annotations

from typing import NamedTuple, cast

import numba
import numpy as np
from numpy.typing import NDArray

from recshard.problem import FloatArray, IntArray
from recshard.strategy.assignment import NONE, Assignment, fits, load_on, put, settle, spill_with
from recshard.strategy.moves import ascending, improve_pair, pressure

ALL_PAIRS = 64  # devices up to which all pairs are tried
_KICKED = 3  # devices that a kick mixes
_MOST_KICKS = 4
_NO_LIMIT = cast(int, np.int64(1 << 40))


class Memory(NamedTuple):
    """What the descent remembers, so that no pair of devices is looked at twice in the same state.

    Attributes:
        tick: number of changes so far, shape (1,).
        changed: tick of each device's last change, shape (d,).
        checked: tick at which a pair was last found to have nothing to exchange, shape (d, d), d < e.
        saved: device of each table in the state to go back to, shape (t,).
        kept: tick of each device's last change in that state, shape (d,).
        seed: state of the random numbers, shape (1,).
    """

    tick: IntArray
    changed: IntArray
    checked: IntArray
    saved: IntArray
    kept: IntArray
    seed: NDArray[np.uint64]


def new_memory(a: Assignment, rng: np.random.Generator) -> Memory:
    """Return a memory that has seen nothing."""
    devices = len(a.cost)
    return Memory(
        tick=np.ones(1, dtype=np.int64),
        changed=np.ones(devices, dtype=np.int64),
        checked=np.zeros((devices, devices), dtype=np.int64),
        saved=a.device.copy(),
        kept=np.ones(devices, dtype=np.int64),
        seed=rng.integers(0, 2**64, 1, dtype=np.uint64),
    )


@numba.njit(cache=True)
def _random(m: Memory) -> float:
    """Return a random number of [0, 1) by splitmix64 (Steele et al. 2014): numpy's takes seconds to compile."""
    m.seed[0] += np.uint64(0x9E3779B97F4A7C15)
    z = m.seed[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return float(z >> np.uint64(11)) / 2.0**53


@numba.njit(cache=True)
def _below(m: Memory, n: int) -> int:
    """Return a random number of 0 … n − 1."""
    return int(_random(m) * n)


@numba.njit(cache=True)
def _shuffled(m: Memory, n: int) -> IntArray:
    """Return 0 … n − 1 in random order."""
    order = np.arange(n)
    for x in range(n - 1, 0, -1):
        y = _below(m, x + 1)
        order[x], order[y] = order[y], order[x]
    return order


@numba.njit(cache=True)
def forget(m: Memory) -> None:
    """Let every pair be looked at again."""
    m.checked[:] = 0


@numba.njit(cache=True)
def potential(a: Assignment, steepness: float, scale: float) -> float:
    """Return the sum of the devices' pressures."""
    total = 0.0
    for cost in a.cost:
        total += pressure(cost, steepness, scale)
    return total


@numba.njit(cache=True)
def _exchange(a: Assignment, m: Memory, x: int, y: int, steepness: float, scale: float, pairs: bool) -> bool:
    """Exchange tables between two devices until nothing helps; return whether anything did."""
    d, e = min(x, y), max(x, y)
    if m.changed[d] <= m.checked[d, e] and m.changed[e] <= m.checked[d, e]:
        return False
    before = m.tick[0]
    while improve_pair(a, d, e, steepness, scale, pairs):
        m.tick[0] += 1
        m.changed[d] = m.changed[e] = m.tick[0]
    m.checked[d, e] = m.tick[0]
    return bool(m.tick[0] > before)


@numba.njit(cache=True)
def match(a: Assignment, m: Memory, steepness: float, scale: float, pairs: bool, rounds: int) -> int:
    """Let every device exchange tables with one other, `rounds` times; return how many pairs improved.

    In turn the slowest meets the fastest, the one where fast memory is dearest that where it is cheapest, and
    each a random one: work that grows with the devices, not with their pairs.
    """
    devices = len(a.cost)
    improved = 0
    for r in range(rounds):
        if r % 3 == 0:
            order = ascending(a.cost)
        elif r % 3 == 1:
            order = ascending(_prices(a, (r // 3) % max(1, a.boundary.shape[1])))
        else:
            order = _shuffled(m, devices)
        for x in range(devices // 2):
            improved += _exchange(a, m, order[x], order[devices - 1 - x], steepness, scale, pairs)
    return improved


@numba.njit(cache=True)
def _prices(a: Assignment, k: int) -> FloatArray:
    """Return what a byte more in tier `k` would save each device, in ms, shape (d,)."""
    prices = np.zeros(len(a.cost))
    for tier in range(k, a.boundary.shape[1]):
        for d in range(len(prices)):
            density = a.threshold[a.hint[d, tier]]
            prices[d] += density * (a.slowness[d, tier + 1] - a.slowness[d, tier])
    return prices


@numba.njit(cache=True)
def relieve(a: Assignment, m: Memory, steepness: float, scale: float, pairs: bool, budget: int) -> int:
    """Exchange tables between the slowest device and others, the fastest first, while that helps.

    Args:
        budget: pairs of devices to look at before returning.

    Returns:
        How many pairs improved.
    """
    improved = 0
    while True:
        slowest = int(np.argmax(a.cost))
        found = False
        for e in ascending(a.cost):
            if e == slowest:
                continue
            budget -= 1
            if _exchange(a, m, slowest, e, steepness, scale, pairs):
                found = True
                break
        if not found or budget <= 0:
            return improved
        improved += 1


@numba.njit(cache=True)
def descend(a: Assignment, m: Memory, steepness: float, scale: float, pairs: bool, budget: int) -> bool:
    """Exchange tables between all pairs of devices, slow with fast first, until nothing helps.

    Args:
        pairs: whether two tables may be exchanged at once for up to two others.
        budget: pairs of devices to look at before returning.

    Returns:
        Whether nothing helps any more; False: the budget is used up.
    """
    while True:
        order = ascending(-a.cost)
        quiet = True
        for x in range(len(order)):
            for y in range(len(order) - 1, x, -1):
                before = m.checked[min(order[x], order[y]), max(order[x], order[y])]
                if _exchange(a, m, order[x], order[y], steepness, scale, pairs):
                    quiet = False
                budget -= m.checked[min(order[x], order[y]), max(order[x], order[y])] != before
                if budget <= 0:
                    return False
        if quiet:
            return True


@numba.njit(cache=True)
def keep(a: Assignment, m: Memory, since: int) -> None:
    """Make the present state the one to go back to; only devices changed after tick `since` are looked at."""
    for d in range(len(a.cost)):
        if m.changed[d] > since:
            j = a.first[d]
            while j >= 0:
                m.saved[j] = d
                j = a.following[j]
            m.kept[d] = m.changed[d]


@numba.njit(cache=True)
def go_back(a: Assignment, m: Memory, since: int) -> None:
    """Undo all changes after tick `since`."""
    for d in range(len(a.cost)):
        if m.changed[d] > since:
            j = a.first[d]
            while j >= 0:
                after = a.following[j]
                if m.saved[j] != d:
                    put(a, j, m.saved[j])
                j = after
    for d in range(len(a.cost)):
        if m.changed[d] > since:
            settle(a, d)
            # What was found of the devices since holds no more, and what was known before holds again.
            m.changed[d] = m.kept[d]
            for e in range(len(a.cost)):
                x, y = min(d, e), max(d, e)
                if m.checked[x, y] > since:
                    m.checked[x, y] = 0


@numba.njit(cache=True)
def kick(a: Assignment, m: Memory) -> None:
    """Exchange some random tables among three devices, mostly with the slowest among them."""
    devices = len(a.cost)
    chosen = np.empty(_KICKED, dtype=np.int64)
    for x in range(_KICKED):
        chosen[x] = _below(m, devices)
    if _random(m) < 0.5:
        chosen[0] = np.argmax(a.cost)
    m.tick[0] += 1
    for _ in range(1 + _below(m, _MOST_KICKS)):
        d, e = chosen[_below(m, _KICKED)], chosen[_below(m, _KICKED)]
        if d == e:
            continue
        j, i = _random_table(a, m, d), _random_table(a, m, e)
        before = a.used.copy()
        if j >= 0:
            put(a, j, e)
        if i >= 0 and _random(m) < 0.7:
            put(a, i, d)
        for p in range(len(a.used)):
            if a.used[p] > a.capacity[p] and a.used[p] > before[p]:
                if j >= 0:
                    put(a, j, d)
                if i >= 0:
                    put(a, i, e)
                break
        m.changed[d] = m.changed[e] = m.tick[0]


@numba.njit(cache=True)
def _random_table(a: Assignment, m: Memory, d: int) -> int:
    """Return a random table of device `d`, −1 where it has none."""
    n = 0
    chosen = NONE
    j = a.first[d]
    while j >= 0:
        n += 1
        if _below(m, n) == 0:
            chosen = j
        j = a.following[j]
    return int(chosen)


@numba.njit(cache=True)
def kick_and_descend(a: Assignment, m: Memory, steepness: float, scale: float, pairs: bool, rounds: int) -> int:
    """Kick, descend and go back where that was worse, `rounds` times; return how often it was better.

    Devices that a kick or its consequences changed exchange tables with all others, or with a sample of them where
    there are many.
    """
    better = 0
    best = potential(a, steepness, scale)
    for _ in range(rounds):
        since = m.tick[0]
        kick(a, m)
        if len(a.cost) <= ALL_PAIRS:
            descend(a, m, steepness, scale, pairs, _NO_LIMIT)
        else:
            _repair(a, m, since, steepness, scale, pairs)
        reached = potential(a, steepness, scale)
        if reached <= best:
            better += reached < best * (1.0 - 1e-9)
            best = reached
            keep(a, m, since)
        else:
            go_back(a, m, since)
    return better


@numba.njit(cache=True)
def _repair(a: Assignment, m: Memory, since: int, steepness: float, scale: float, pairs: bool) -> None:
    """Let each device changed after tick `since` exchange tables with the others changed and some more."""
    others = _shuffled(m, len(a.cost))[:ALL_PAIRS]
    improved = True
    while improved:
        improved = False
        for d in range(len(a.cost)):
            if m.changed[d] > since:
                for e in others:
                    improved |= e != d and _exchange(a, m, d, e, steepness, scale, pairs)
                for e in range(d):
                    improved |= m.changed[e] > since and _exchange(a, m, d, e, steepness, scale, pairs)


@numba.njit(cache=True)
def assign(
    a: Assignment, order: IntArray, hint: IntArray, share: FloatArray, kind: IntArray, by_room: bool
) -> bool:
    """Give every table a device, in `order`; return whether all found one.

    Each goes where it keeps cost and the bytes of every tier most even (the least sum of squares of their shares
    of what is there, `share`, shape (d, k)) or, `by_room`, where most room is left.

    Args:
        hint: column of the grid up to which rows are taken to stand in each tier but the slowest, shape (k − 1,).
        share: what a device should hold at most: its cost in column 0, then bytes up to each tier, shape (d, k).
        kind: a number for each device, the same for devices that nothing tells apart, shape (d,).
    """
    devices, tiers = a.slowness.shape
    last = a.table_size.shape[1] - 1
    load = np.zeros((devices, tiers))
    extra = np.zeros(tiers)  # what the table at hand adds to a device
    for j in order:
        best, best_value = NONE, np.inf
        for k in range(tiers - 1):
            extra[k + 1] = a.table_size[j, hint[k]]
        for d in range(devices):
            if not by_room and (d == 0 or kind[d] != kind[d - 1]):
                extra[0] = load_on(a, hint, d, j)
            spill = spill_with(a, d, j, NONE, NONE, NONE)
            if not fits(a, d, spill, NONE, 0.0):
                continue
            if by_room:
                fast = a.boundary[d, -1] if tiers > 1 else 0.0
                value = -(a.capacity[a.pool[d]] - a.used[a.pool[d]] + max(0.0, fast - a.size[d, last]))
            else:
                value = 0.0
                for k in range(tiers):
                    # (load + extra)² − load², in shares
                    more = extra[k] / share[d, k]
                    value += (2.0 * load[d, k] / share[d, k] + more) * more
            if value < best_value:
                best, best_value = d, value
        if best == NONE:
            return False
        extra[0] = load_on(a, hint, best, j)
        load[best] += extra
        put(a, j, best)
    return True
