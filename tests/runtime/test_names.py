"""What the runtime offers is there by name, and torch loads only when it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import recshard.runtime


def test_every_name_leads_to_something() -> None:
    for name in recshard.runtime.__all__:
        assert getattr(recshard.runtime, name).__module__.startswith("recshard.runtime.")
    name = "nothing"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        getattr(recshard.runtime, name)


def test_the_room_opens_without_torch() -> None:
    script = "import sys, recshard.runtime; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
