"""How near the limit the solver comes, and how fast: `python analysis/bench_solver.py [SECTION …]`.

* `rm`: RM1–3 on 16 devices, from the problem in memory to the checked placement, whole tables and cut ones.
* `large`: thousands of tables on hundreds of devices, each in a process of its own, with its peak memory.
* `tiers`: three tiers and memory shared by a node.
* `evaluations`: what it takes to judge an exchange, as tables and devices become more.
* `milp`: the paper's formulation and the tight one with each solver, beside `recshard` in the same time.
* `milp-hour`: the same with an hour for each; only where it is asked for.
* `rivals`: the greedy baselines.

Gaps are (bottleneck − bound) ÷ bound, the bound proven under the same splitting rules, the bottleneck that of the
checked placement. All kernels are compiled before the clock starts. Times are wall time: other work on the machine
counts, so each table says the load average beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from bench_moves import evaluations, synthetic_problem

from recshard.errors import RecshardError
from recshard.instances import load_instance
from recshard.placement import bottleneck_ms, check_placement
from recshard.problem import PlacementProblem
from recshard.shards import WHOLE, SplitRules
from recshard.strategy.bound import lower_bound, lower_bound_ms
from recshard.strategy.milp import milp
from recshard.strategy.result import Solution
from recshard.strategy.run import BASELINES, StrategyOptions, run_strategy
from recshard.strategy.stop import relative_gap

Row = dict[str, object]
Rows = Iterator[Row]

SPLITS = ("none", "column", "row")


def compile_kernels(strategy: str) -> None:
    """Run all that is compiled on something small, so that no measurement contains it."""
    problem = synthetic_problem(40, 4)
    for split in SPLITS:
        run_strategy(strategy, problem, StrategyOptions(time_limit=1.0, rules=SplitRules(split)))
    # Three tiers, the middle one shared by all devices and the last one again each device's own.
    capacity = problem.pool_capacity
    shared = replace(
        problem,
        bandwidth=np.tile([1555e9, 16e9, 2e9], (4, 1)),
        pool=np.hstack([np.arange(4)[:, None], np.full((4, 1), 4), 5 + np.arange(4)[:, None]]),
        pool_capacity=np.repeat([capacity[0], capacity[1] / 2, capacity[1]], [4, 1, 4]),
    )
    run_strategy(strategy, shared, StrategyOptions(time_limit=1.0))


def timed(strategy: str, problem: PlacementProblem, options: StrategyOptions) -> tuple[Solution, float]:
    """Return what a strategy finds on a problem that has nothing computed yet, and the seconds it takes."""
    untouched = replace(problem)
    begin = time.perf_counter()
    found = run_strategy(strategy, untouched, options)
    return found, time.perf_counter() - begin


def seconds_to(gap: float, found: Solution, took: float) -> float | None:
    """Return when the incumbent was first that near to the bound, None: never.

    While it searches, the incumbent is what the grid says, which is not below its exact cost: the checked
    placement may be nearer than any incumbent was.
    """
    for event in found.history:
        if relative_gap(event.bottleneck_ms, found.lower_bound_ms) <= gap:
            return event.seconds
    return took if found.gap <= gap else None


def median_and_worst(name: str, values: list[float | None]) -> Row:
    """Return the two as cells; a value that was never reached is worse than all."""
    known = [np.inf if value is None else value for value in values]
    cells = {f"{name}, median": statistics.median(known), f"{name}, worst": max(known)}
    return {what: value if np.isfinite(value) else None for what, value in cells.items()}


def percent(gap: float) -> float:
    """Return a share in percent."""
    return 100.0 * gap


def bench_rm(options: argparse.Namespace) -> Rows:
    """Gap within 1 s and 10 s, and time to 0.1% and 0.02%."""
    for name in options.instances:
        problem = load_instance(name)
        for split in SPLITS:
            yield _gaps(options, name, problem, SplitRules(split), (1.0, 10.0))


def bench_tiers(options: argparse.Namespace) -> Rows:
    """RM3 with 8 GB of fast memory, host memory shared by the eight devices of a node, and SSD below."""
    yield _gaps(options, "rm3-ssd", load_instance("rm3-ssd"), WHOLE, (1.0, 10.0))


def _gaps(
    options: argparse.Namespace, name: str, problem: PlacementProblem, rules: SplitRules, limits: tuple[float, ...]
) -> Row:
    """Return what all seeds reach within each time limit; the times to a gap are those under the longest."""
    bound = lower_bound(problem, rules)
    row: Row = {"instance": name, "split": rules.kind, "bound by": bound.by, "bound ms": bound.ms}
    for limit in limits:
        runs = [
            timed(options.strategy, problem, StrategyOptions(limit, seed, rules=rules))
            for seed in range(options.seeds)
        ]
        row |= median_and_worst(f"gap % in {limit:g} s", [percent(found.gap) for found, _ in runs])
        row[f"longest s of {limit:g}"] = max(took for _, took in runs)
    for gap in (1e-3, 2e-4):
        reached = [seconds_to(gap, found, took) for found, took in runs]
        row |= median_and_worst(f"s to {percent(gap):g}%", reached)
    row["shards"] = max(len(found.placement.device) for found, _ in runs)
    return row


def bench_large(options: argparse.Namespace) -> Rows:
    """Each problem in a child process: its peak is its own."""
    for size in options.sizes:
        for split, state_bytes in (("row", 0), ("row", 4), ("column", 0), ("column", 4)):
            command = [sys.executable, __file__, "--one-large", size, split, str(state_bytes)]
            command += ["--large-seconds", str(options.large_seconds), "--strategy", options.strategy]
            done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
            row: Row = {"tables × devices": size, "split": split, "state bytes": state_bytes}
            yield row | (json.loads(done.stdout) if done.returncode == 0 else {"exit status": done.returncode})


def one_large(size: str, split: str, state_bytes: int, seconds: float, strategy: str) -> Row:
    """Return what is reached on one problem, and this process's peak memory."""
    compile_kernels(strategy)
    tables, devices = map(int, size.split("x"))
    problem = synthetic_problem(tables, devices, state_bytes)
    rules = SplitRules(split)
    before = peak_bytes()
    try:
        found, took = timed(strategy, problem, StrategyOptions(seconds, rules=rules))
    except RecshardError as error:
        return {"said": str(error)}
    bound = found.lower_bound_ms
    return {
        "bound ms": bound,
        "bound by": lower_bound(problem, rules).by,
        "whole tables' bound ÷ bound": lower_bound_ms(problem) / bound,
        "s to 0.1%": seconds_to(1e-3, found, took),
        "gap %": percent(found.gap),
        "s": took,
        "limit s": seconds,
        "shards": len(found.placement.device),
        "peak GB": None if before is None else (peak_bytes() or 0) / 1e9,
        "of that before GB": None if before is None else before / 1e9,
    }


def peak_bytes() -> int | None:
    """Return the most memory that this process has held, None where the system does not tell."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return None


def bench_evaluations(options: argparse.Namespace) -> Rows:
    """Time per exchange as tables and devices become more; says what it counts."""
    yield from evaluations(options.evaluation_seconds)


def bench_milp(options: argparse.Namespace, seconds: float | None = None) -> Rows:
    """What solvers make of both formulations without a warm start, beside `recshard` in the same time.

    *Model*: the model's own bottleneck, as the solver has it; *placed*: after rounding, and splitting exactly.
    """
    limit = options.milp_seconds if seconds is None else seconds
    for name in options.instances:
        problem = load_instance(name)
        bound = lower_bound_ms(problem)
        found, took = timed(options.strategy, problem, StrategyOptions(limit))
        yield _ratios(name, options.strategy, "", bound, found, took)
        for formulation in ("paper", "tight"):
            for solver in options.solvers:
                row: Row = {"instance": name, "what": formulation, "solver": solver}
                begin = time.perf_counter()
                try:
                    found = milp(replace(problem), formulation, solver, limit, warm_start=False)
                except RecshardError as error:
                    yield row | {"s": time.perf_counter() - begin, "said": str(error)}
                    continue
                yield _ratios(name, formulation, solver, bound, found, time.perf_counter() - begin)


def bench_milp_hour(options: argparse.Namespace) -> Rows:
    """`milp` with an hour for each: whether it was only a matter of time."""
    yield from bench_milp(options, 3_600.0)


def _ratios(instance: str, what: str, solver: str, bound: float, found: Solution, took: float) -> Row:
    model = found.notes.get("model_bottleneck_ms")
    return {
        "instance": instance,
        "what": what,
        "solver": solver,
        "model ÷ bound": model / bound if isinstance(model, float) else None,
        "placed ÷ bound": found.bottleneck_ms / bound,
        "s": took,
        "build s": found.notes.get("build_seconds"),
        "said": found.notes.get("solver_status", found.status),
    }


def bench_rivals(options: argparse.Namespace) -> Rows:
    """The paper's greedy baselines."""
    for name in options.instances:
        problem = load_instance(name)
        bound = lower_bound_ms(problem)
        for baseline in BASELINES:
            row: Row = {"instance": name, "baseline": baseline}
            try:
                found, took = timed(baseline, problem, StrategyOptions())
            except RecshardError as error:
                yield row | {"said": str(error)}
                continue
            check_placement(problem, found.placement)
            yield row | {"bottleneck ÷ bound": bottleneck_ms(problem, found.placement) / bound, "s": took}


SECTIONS: dict[str, Callable[[argparse.Namespace], Rows]] = {
    "rm": bench_rm,
    "large": bench_large,
    "tiers": bench_tiers,
    "evaluations": bench_evaluations,
    "milp": bench_milp,
    "milp-hour": bench_milp_hour,
    "rivals": bench_rivals,
}
ASKED_FOR = ("milp-hour",)


def cell(value: object) -> str:
    """Return a value as a table shows it."""
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else f"{value}"


def show(section: str, rows: list[Row], load: float) -> None:
    """Print a table."""
    heads = list(dict.fromkeys(head for row in rows for head in row))
    lines = [heads] + [[cell(row.get(head, "")) for head in heads] for row in rows]
    widths = [max(len(line[x]) for line in lines) for x in range(len(heads))]
    print(f"\n{section} (load average {load:.1f})")
    for line in lines:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip(), flush=True)


def main() -> None:
    """Run the sections."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}")
    parser.add_argument("--seeds", type=int, default=3, help="runs of `rm` and `tiers`")
    parser.add_argument("--strategy", default="recshard", choices=("recshard", "search"))
    parser.add_argument("--instances", nargs="+", default=["rm1", "rm2", "rm3"], help="of `rm`, `milp`, `rivals`")
    parser.add_argument("--sizes", nargs="+", default=["4000x256", "10000x1024"], help="of `large`")
    parser.add_argument("--large-seconds", type=float, default=60.0, help="limit of each of `large`")
    parser.add_argument("--evaluation-seconds", type=float, default=1.0, help="of each figure of `evaluations`")
    parser.add_argument("--milp-seconds", type=float, default=60.0, help="limit of each of `milp`")
    parser.add_argument("--solvers", nargs="+", default=["highs", "cbc"], help="of `milp`")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--one-large", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one_large:
        size, split, state_bytes = options.one_large
        row = one_large(size, split, int(state_bytes), options.large_seconds, options.strategy)
        print(json.dumps(row))
        return
    chosen = options.sections or [section for section in SECTIONS if section not in ASKED_FOR]
    unknown = [section for section in chosen if section not in SECTIONS]
    if unknown:
        parser.error(f"section: found {', '.join(unknown)}; accepted: {', '.join(SECTIONS)}")
    compile_kernels(options.strategy)
    document: dict[str, object] = {}
    for section in chosen:
        rows: list[Row] = []
        for row in SECTIONS[section](options):
            rows.append(row)
            print(
                f"{section}: {', '.join(f'{head} {cell(value)}' for head, value in row.items())}", file=sys.stderr
            )
        load = os.getloadavg()[0]
        document[section] = {"load_average": load, "rows": rows}
        if not options.json:
            show(section, rows, load)
    if options.json:
        print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
