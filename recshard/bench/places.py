"""Places: which of this machine's memories stands for each tier, and whether it has the room."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from recshard.bench.paged import layout, row_bytes_of
from recshard.errors import InputError
from recshard.plan.plan import Plan
from recshard.runtime.memory import Kind, memories
from recshard.units import format_bytes

WORDS: dict[str, str] = {
    "cuda": "the GPU's memory",
    "uvm": "pinned host memory, read by the GPU",
    "host": "host memory",
    "file": "a file read past the page cache (O_DIRECT)",
}

_LIMITS = (  # of control groups, versions 2 and 1
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)


def places_of(tier_names: Sequence[str], given: Mapping[str, str]) -> dict[str, Kind]:
    """Return the memory that stands for each tier, by name, fast to slow.

    With CUDA those that the runtime takes; without, host memory for the fastest and a file for every other: a host
    has no second memory that is really slower.

    Args:
        given: the memory of some tiers, by name.

    Raises:
        InputError: a tier or memory that is not there, or a tier without a usual memory that `given` lacks.
    """
    usual: dict[str, str] = {}
    if not torch.cuda.is_available():
        usual = {tier: "file" if k else "host" for k, tier in enumerate(tier_names)}
    kinds = memories(tier_names, usual | dict(given))
    return dict(zip(tier_names, kinds, strict=True))


def bytes_by_kind(plan: Plan, kinds: Sequence[Kind]) -> dict[Kind, int]:
    """Return the bytes of weights that a plan puts into each kind of memory, all devices together."""
    size = [row_bytes_of(plan, s) for s in range(len(plan.shards))]
    found: dict[Kind, int] = {}
    for k, kind in enumerate(kinds):
        total = sum(int(n) * b for n, b in zip(plan.placement.rows[:, k], size, strict=True))
        found[kind] = found.get(kind, 0) + total
    return found


def cache_bytes(plan: Plan, kinds: Sequence[Kind], device: int) -> int:
    """Return the bytes of weights that a device of a plan has in memories other than files."""
    mine = [s for s in range(len(plan.shards)) if plan.placement.device[s] == device]
    fast = [k for k, kind in enumerate(kinds) if kind != "file"]
    return sum(int(plan.placement.rows[s, fast].sum()) * row_bytes_of(plan, s) for s in mine)


def check_room(
    plans: Sequence[Plan],
    kinds: Sequence[Kind],
    folder: Path,
    *,
    paged: Plan | None,
    measured: Mapping[Kind, int],
) -> None:
    """Check that everything fits before anything is made.

    Args:
        plans: executed side by side.
        folder: for files.
        paged: the plan whose assignment the page cache runs; None: it does not run.
        measured: bytes of the tables that each memory is measured with.

    Raises:
        InputError: a memory or the disk is too small.
    """
    needed: dict[Kind, int] = dict(measured)
    for plan in plans:
        for kind, size in bytes_by_kind(plan, kinds).items():
            needed[kind] = needed.get(kind, 0) + size
    if paged is not None:
        for device in range(paged.problem.devices):
            needed["host"] = needed.get("host", 0) + cache_bytes(paged, kinds, device)
            needed["file"] = needed.get("file", 0) + layout(paged, device)[1]
    needed["host"] = needed.get("host", 0) + needed.pop("uvm", 0)
    way_out = "make a smaller model (fewer rows in tables.toml), or --place its tiers elsewhere"
    for kind, size in needed.items():
        if kind == "file":
            free, where, remedy = (
                shutil.disk_usage(folder).free,
                str(folder),
                f"choose another --folder, or {way_out}",
            )
        elif kind == "cuda":
            free, where, remedy = torch.cuda.mem_get_info()[0], "the GPU's memory", way_out
        else:
            free, where, remedy = _free_memory(), "host memory", way_out
        if size > free:
            raise InputError(
                f"{where}: the plan and its rivals need {format_bytes(size)} side by side; free: "
                f"{format_bytes(free)}; {remedy}"
            )


def memory_behind(folder: Path, mounted: Path = Path("/proc/self/mounts")) -> str:
    """Return the file system of a folder that is in memory, tmpfs or ramfs; empty for one on a disk."""
    try:
        mounts = [line.split() for line in mounted.read_text().splitlines()]
    except OSError:  # no Linux: whether the files are slower is measured all the same
        return ""
    place = folder.resolve()
    above = [m for m in mounts if place.is_relative_to(m[1].replace("\\040", " "))]
    # What was mounted last at a place hides what was there before.
    system = max(enumerate(above), key=lambda each: (len(each[1][1]), each[0]))[1][2] if above else ""
    return system if system in ("tmpfs", "ramfs") else ""


def check_disk(folder: Path) -> None:
    """Check that a folder is on a disk: many systems keep temporary files in memory, which reads no disk.

    Raises:
        InputError: it is in memory.
    """
    system = memory_behind(folder)
    if system:
        raise InputError(
            f"{folder}: is in memory ({system}), so that a file there is no slow tier; accepted: a folder on a "
            "disk; give one with --folder"
        )


def _free_memory(groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the bytes of host memory that are available, without limit where the system does not say.

    Args:
        groups: Linux's control groups, as a container sees its own.
    """
    machine = _number(Path("/proc/meminfo"), r"MemAvailable:\s+(\d+) kB")
    left = [_left_in(groups, *names) for names in _LIMITS]
    return min(2**63 if machine is None else machine * 1024, *left)


def _left_in(groups: Path, limit: str, used: str, statistics: str, idle: str) -> int:
    """Return the bytes that a container may still take; idle pages of files make room where they are needed."""
    accepted, taken = _number(groups / limit, r"(\d+)"), _number(groups / used, r"(\d+)")
    if accepted is None or taken is None:
        return 2**63
    return max(accepted - taken + (_number(groups / statistics, rf"(?m)^{idle} (\d+)$") or 0), 0)


def _number(path: Path, pattern: str) -> int | None:
    try:
        found = re.search(pattern, path.read_text())
    except OSError:
        return None
    return int(found[1]) if found else None
