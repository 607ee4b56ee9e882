"""Whether a folder is on a disk, and how much memory is free, is what the system says."""

from __future__ import annotations

from pathlib import Path

from recshard.bench.places import _free_memory, memory_behind


def test_a_folder_is_where_the_last_mount_above_it_is(tmp_path: Path) -> None:
    mounted = tmp_path / "mounts"
    first = f"disk / ext4 rw 0 0\ntmpfs {tmp_path}/a tmpfs rw 0 0\ndisk {tmp_path}/a/b ext4 rw 0 0\n"
    mounted.write_text(first)
    assert memory_behind(tmp_path / "a" / "x", mounted) == "tmpfs"
    assert memory_behind(tmp_path / "a" / "b" / "x", mounted) == ""
    assert memory_behind(tmp_path / "ab", mounted) == ""
    mounted.write_text(f"{first}ram {tmp_path}/a/b ramfs rw 0 0\ndisk {tmp_path}/a ext4 rw 0 0\n")
    assert memory_behind(tmp_path / "a" / "b", mounted) == "ramfs"
    assert memory_behind(tmp_path / "a", mounted) == ""
    assert memory_behind(tmp_path, tmp_path / "no Linux") == ""


def test_a_container_has_no_more_memory_than_it_may(tmp_path: Path) -> None:
    machine = _free_memory(tmp_path)
    assert machine > 1 << 20
    (tmp_path / "memory.max").write_text("max\n")
    assert abs(_free_memory(tmp_path) - machine) < machine / 2
    (tmp_path / "memory.max").write_text("5000000\n")
    (tmp_path / "memory.current").write_text("3000000\n")
    (tmp_path / "memory.stat").write_text("file 2000000\ninactive_file 1000000\nactive_file 7\n")
    assert _free_memory(tmp_path) == 3_000_000
    (tmp_path / "memory.current").write_text("9000000\n")
    assert _free_memory(tmp_path) == 0
    older = tmp_path / "1"
    (older / "memory").mkdir(parents=True)
    (older / "memory" / "memory.limit_in_bytes").write_text("700\n")
    (older / "memory" / "memory.usage_in_bytes").write_text("500\n")
    (older / "memory" / "memory.stat").write_text("inactive_file 9\ntotal_inactive_file 100\n")
    assert _free_memory(older) == 300
