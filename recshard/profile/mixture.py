"""How often rows are really used, given how often they were counted: the likeliest mixture of Poisson rates.

Every row of a table has a rate, and its count is Poisson distributed around it. Kiefer & Wolfowitz (1956)
estimate the distribution of the rates without assuming its shape: it is the one that makes the counts of counts
likeliest, which is a convex problem without any constant to tune (Koenker & Mizera, "Convex optimization, shape
constraints, compound decisions, and empirical Bayes rules", 2014). The mean rate of the rows with count x is then
(x + 1) · f(x + 1) ÷ f(x), f being the mixture's counts of counts: Good–Turing, with the likeliest smoothing.
"""

from __future__ import annotations

from functools import cache

import numba
import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

# The grid is even in 2·√rate, where the standard deviation of a Poisson count is about one whatever its rate: an
# eighth of that is finer than the counts resolve. From 2·√rate = 8 on it is even in the logarithm, 3% of a rate a
# step, since telling apart rates that are closer would not change a plan. Neither is fitted to data: half the one,
# half or twice the other or ten times the iterations move the median errors in analysis/bench_unseen.py by 0.1% of
# the slow share at most.
_STEP = 1 / 8
_RATIO = 1 + 1 / 64
_REACH = 6.0  # standard deviations; beyond them a rate explains a count less well than 1 to 10⁷
_TOP = 2.0**33  # above 2·√rate of the largest int64
_ITERATIONS = 100
_VISITS = 25_000  # likelihoods of a count: what few counts leave of them goes into more iterations
_LEAST = 1e-100  # no rate is ever ruled out, so that every count keeps an explanation
_TOLERANCE = 1e-5  # log-likelihood per row seen that is not worth another iteration


def mean_rates(count: IntArray, rows: IntArray) -> FloatArray:
    """Return the mean rate of the rows with each count: lookups expected in another trace like the one counted.

    Args:
        count: distinct counts of rows, 0 for those never seen, rising, shape (c,).
        rows: rows with each count, shape (c,).

    Returns:
        Mean rates, never falling, shape (c,). At the maximum they add up to all lookups counted; short of it
        nearly so.
    """
    nodes, rates, first, width, likelihood = _grid()
    used = int(np.searchsorted(nodes, count[-1], side="right")) + 1
    # Looking up the nodes among the counts is several times faster than the reverse: there are fewer of them.
    below = np.repeat(np.arange(used), np.diff(np.searchsorted(count, nodes[:used]), append=len(count)))
    # A count between two nodes is shared between them so that their mean is the count.
    share = (count - nodes[below]) / (nodes[below + 1] - nodes[below])
    weight = np.zeros(used)
    weight += np.bincount(below, rows * (1.0 - share), used)
    weight += np.bincount(below + 1, rows * share, used)
    occupied = np.flatnonzero(weight)
    first, width, likelihood = first[occupied], width[occupied], likelihood[occupied]
    iterations = max(_ITERATIONS, _VISITS // len(occupied))
    tolerance = _TOLERANCE * float(np.sum(rows[count > 0]) / np.sum(rows))
    mixture = _likeliest(weight[occupied], first, width, likelihood, iterations, tolerance)
    mean = np.zeros(used)
    mean[occupied] = _posterior_mean(mixture, rates, first, width, likelihood)
    return np.maximum.accumulate((1.0 - share) * mean[below] + share * mean[below + 1])


@cache
def _grid() -> tuple[FloatArray, FloatArray, IntArray, IntArray, FloatArray]:
    """Return the nodes of counts and the rates that may explain them.

    Returns:
        Nodes: whole numbers from 0 on, rising, shape (n,).
        Rates: from 0 on, rising, shape (g,).
        First: the first rate of each node's band, shape (n,).
        Width: how many rates are in each node's band, shape (n,).
        Likelihood: of the node's count under each rate of its band, as a multiple of its largest value under
            any rate, shape (n, w), w being the largest width; a factor for a node changes neither the mixture
            nor a mean.
    """
    turn = _STEP / (_RATIO - 1)  # where a step of the one kind is as long as one of the other
    steps = int(np.log(_TOP / turn) / np.log(_RATIO)) + 2
    ladder = np.concatenate([np.arange(0.0, turn, _STEP), turn * _RATIO ** np.arange(steps)])
    rates = ladder**2 / 4
    nodes = np.unique(np.round(rates))
    deviation = 2 * np.sqrt(nodes)
    first = np.searchsorted(ladder, deviation - _REACH)
    width = np.searchsorted(ladder, deviation + _REACH, side="right") - first
    rate = rates[np.minimum(first[:, None] + np.arange(width.max()), len(rates) - 1)]
    positive = np.maximum(nodes, 1.0)[:, None]
    with np.errstate(divide="ignore"):  # a rate of zero explains no count but zero
        excess = rate / positive - 1.0
        likelihood = np.exp(-positive * (excess - np.log1p(excess)))
    likelihood[0] = np.exp(-rate[0])
    return nodes, rates, first.astype(np.int64), width.astype(np.int64), likelihood


@numba.njit(cache=True, fastmath={"reassoc", "contract"})
def _likeliest(
    weight: FloatArray,
    first: IntArray,
    width: IntArray,
    likelihood: FloatArray,
    iterations: int,
    tolerance: float,
) -> FloatArray:
    """Return the share of rows at each rate that makes the counts likeliest, shape (rates,).

    Expectation maximisation multiplies the shares by a gradient. Its steps are raised to a power for as long as
    that keeps paying (Salakhutdinov & Roweis, "Adaptive overrelaxed bound optimization methods", 2003). No
    mixture can be likelier, per row, than by the largest gradient less one: that bounds what is left to gain.
    """
    rates = first[-1] + width[-1]
    total = weight.sum()
    share = np.full(rates, 1.0 / rates)
    best = share.copy()
    gradient = np.empty(rates)
    best_gradient = np.ones(rates)
    best_log = -np.inf
    doublings = 0
    for _ in range(iterations):
        # Likelihoods are read in order, row after row; shares and gradients of one band stay in the first cache.
        gradient[:] = 0.0
        log = 0.0
        for i in range(len(weight)):
            band = likelihood[i]
            shares = share[first[i] : first[i] + width[i]]
            density = 0.0
            for j in range(width[i]):
                density += band[j] * shares[j]
            log += weight[i] * np.log(density)
            gradients = gradient[first[i] : first[i] + width[i]]
            scale = weight[i] / (total * density)
            for j in range(width[i]):
                gradients[j] += scale * band[j]
        if not log >= best_log and doublings > 0:  # also where the step was too large for a number
            doublings = 0
        else:
            doublings += 1
            best_log = log
            best[:] = share
            best_gradient[:] = gradient
            if gradient.max() - 1.0 <= tolerance:
                break
        step = best_gradient.copy()
        for _ in range(doublings - 1):
            step *= step
        step *= best
        share[:] = np.maximum(step / step.sum(), _LEAST)
    return best


@numba.njit(cache=True)
def _posterior_mean(
    mixture: FloatArray, rates: FloatArray, first: IntArray, width: IntArray, likelihood: FloatArray
) -> FloatArray:
    """Return the mean rate of rows with each node's count, shape (n,)."""
    mean = np.empty(len(first))
    for i in range(len(first)):
        density = 0.0
        moment = 0.0
        for j in range(width[i]):
            joint = likelihood[i, j] * mixture[first[i] + j]
            density += joint
            moment += joint * rates[first[i] + j]
        mean[i] = moment / density
    return mean
