"""A bench as a table on a terminal: what every contender took, beside what the model said."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from recshard.bench.places import WORDS
from recshard.bench.result import LRU, STEP, Bench, Order
from recshard.report.cells import share, table_of


def bench_report(bench: Bench) -> RenderableType:
    """Return the memories and their rates, the contenders' times and accesses, and whether both orders agree."""
    return Group(
        _memories(bench), _times(bench), _accesses(bench), *(Text(sentence) for sentence in _sentences(bench))
    )


def _memories(bench: Bench) -> RenderableType:
    table = table_of("the memory that stood for each tier", ("tier", "memory", "lookups/s", "access", "rate"))
    for tier, kind in bench.places.items():
        rate = bench.rates[kind]
        table.add_row(
            tier,
            WORDS[kind],
            f"{rate.reads_per_s:,.0f}",
            f"{rate.load.access_bytes:.0f} B",
            f"{rate.bytes_per_s / 1e6:,.1f} MB/s",
        )
    return table


def _times(bench: Bench) -> RenderableType:
    steps = len(bench.outcomes[0].times_ms)
    title = (
        f"ms a step: {steps} steps of {bench.batch_size:,} samples of {bench.trace}, {bench.warm_up} to warm up"
    )
    costs = ("predicted", "replayed", "by reads", "measured", "p10", "p90")
    table = table_of(title, ("plan", *costs, "× first", "÷ predicted", "÷ replayed", "÷ by reads"))
    for entry in bench.summary()["contenders"]:
        table.add_row(
            entry["name"],
            *(
                _number(entry[f"{name}_ms"])
                for name in ("predicted", "replayed", "reads", "measured", "p10", "p90")
            ),
            f"{entry['ratio']:.2f}",
            *(_number(entry[f"measured_over_{name}"], ".2f") for name in ("predicted", "replayed", "reads")),
        )
    return table


def _accesses(bench: Bench) -> RenderableType:
    names = [f"{tier} {what}" for tier in bench.places for what in ("accesses", "reads")]
    table = table_of("accesses and reads in all steps", ("plan", *names, "outside the fastest tier"))
    for outcome in bench.outcomes:
        served, read = outcome.accesses.sum(axis=0), outcome.reads.sum(axis=0)
        counts = [f"{n:,}" for both in zip(served, read, strict=True) for n in both]
        table.add_row(outcome.name, *counts, share(outcome.slow_share))
    return table


def _number(value: float | None, form: str = ".4g") -> str:
    return "–" if value is None else format(value, form)


def _sentences(bench: Bench) -> list[str]:
    sentences = [f"A step: {STEP}.", _order(bench.order, "predicted from the profile")]
    sentences.append(_order(bench.replayed_order, "predicted from the accesses made"))
    sentences.append(_order(bench.reads_order, "predicted from the reads made"))
    sentences.append(
        "Predicted: by the plan's formula at the rates measured here. Replayed: from the accesses that these "
        "steps made. By reads: a row of a file that a step asks for several times is read once."
    )
    cache = bench.by_name.get(LRU)
    if cache is not None:
        filled = "was full" if bench.cache_full else "was not yet full, with all of the trace read once,"
        sentences.append(
            f"The LRU page cache has the bytes that the plan keeps in memory, in pages of 4 KiB; it {filled} "
            f"after {bench.cache_samples:,} samples; then {share(1 - cache.slow_share)} of lookups hit, and "
            f"{cache.pages_read:,} pages were read."
        )
    if bench.doubt is not None:
        sentences.append(f"Times say little, since the memories came together while steps ran: {bench.doubt}.")
    if bench.passes > 1:
        sentences.append(f"The trace ended and was begun anew: {bench.passes} passes.")
    sentences += [f"Left out: {name}: {reason}." for name, reason in bench.left_out.items()]
    return sentences


def _order(order: Order, how: str) -> str:
    """Return in a sentence whether plans rank as predicted."""
    text = f"By measured time: {', '.join(order.measured)}; as {how}: {', '.join(order.predicted)}"
    if order.against:
        pairs = ", ".join(f"{a} was slower than {b}" for a, b in order.against)
        text += f": not the same order ({pairs})"
    elif order.is_as_predicted is None:
        return f"{text}: no two can be told apart: predictions are equal, or times between p10 and p90 overlap."
    else:
        text += ": the same order" + ("" if order.measured == order.predicted else " but for ties")
    if order.ties:
        pairs = ", ".join(f"{a} and {b}" for a, b in order.ties)
        text += f" (ties, times between p10 and p90 overlap: {pairs})"
    return text + "."
