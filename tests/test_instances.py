"""The instance library holds what it says, and `recshard verify` notices when it does not."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from recshard import content
from recshard.errors import InputError
from recshard.instances import instance_names, load_instance, open_instance, update_instance, verify_instance
from recshard.instances.instance import MODEL, PLACEMENT, SPEC, ProofSpec, library
from recshard.strategy.bound import lower_bound
from recshard.strategy.search import search
from recshard.strategy.stop import after_rounds

SMALL = [name for name in instance_names() if open_instance(name).spec.model]
MEDIUM = ["hot-table", "network", "unequal-devices"]
LARGE = [name for name in instance_names() if name not in SMALL + MEDIUM]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A folder with a copy of one small instance."""
    shutil.copytree(library() / "small-2x2", tmp_path / "instances" / "small-2x2")
    return tmp_path / "instances"


@pytest.mark.parametrize("name", SMALL + MEDIUM)
def test_what_is_recorded_is_so(name: str) -> None:
    assert verify_instance(open_instance(name)).troubles == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_what_is_recorded_of_large_ones_is_so(name: str) -> None:
    assert verify_instance(open_instance(name)).troubles == ()


@pytest.mark.parametrize("name", SMALL)
def test_three_solvers_proved_the_small_ones_optimal(name: str) -> None:
    instance = open_instance(name)
    best = instance.spec.best
    assert best is not None
    assert len({proof.solver for proof in instance.spec.proofs}) >= 3
    optima = [proof.optimum_ms for proof in instance.spec.proofs]
    assert max(optima) <= min(optima) * (1 + 1e-6)
    assert best.bottleneck_ms <= min(optima) * (1 + 1e-4)


def test_a_table_of_the_hot_one_must_be_split() -> None:
    instance = open_instance("hot-table")
    best = instance.spec.best
    assert best is not None
    whole = lower_bound(instance.problem).ms
    assert whole > 1.9 * best.bottleneck_ms


def test_content_is_found_beside_the_package_and_inside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_checkout = instance_names()
    assert in_checkout
    (tmp_path / "_content").mkdir()
    shutil.copytree(library(), tmp_path / "_content" / "solver_models" / "instances")
    monkeypatch.setattr(content, "_PACKAGE", tmp_path)
    assert library().is_relative_to(tmp_path)
    assert instance_names() == in_checkout


def test_an_unknown_instance_is_an_error_that_suggests_one() -> None:
    with pytest.raises(InputError, match="did you mean 'small-2x2'"):
        load_instance("small2x2")


@pytest.mark.parametrize("key", ["bottleneck_ms", "lower_bound_ms", "optimum_ms"])
def test_a_recorded_value_that_is_wrong_is_named(copied: Path, key: str) -> None:
    path = copied / "small-2x2" / SPEC
    lines = path.read_text().splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith(key))
    lines[at] = f"{key} = {float(lines[at].split('=')[1]) * 1.001!r}"
    path.write_text("\n".join(lines))
    assert verify_instance(open_instance("small-2x2", copied)).troubles


def test_a_placement_that_breaks_a_rule_is_named(copied: Path) -> None:
    path = copied / "small-2x2" / PLACEMENT
    table = pq.read_table(path)
    rows = table["rows_hbm"].to_numpy().copy()
    rows[np.argmax(rows)] += 1
    at = table.column_names.index("rows_hbm")
    pq.write_table(table.set_column(at, "rows_hbm", [rows]), path)
    (trouble,) = verify_instance(open_instance("small-2x2", copied)).troubles
    assert "rows" in trouble


def test_a_placement_that_is_damaged_is_named(copied: Path) -> None:
    path = copied / "small-2x2" / PLACEMENT
    path.write_bytes(path.read_bytes()[:100])
    (trouble,) = verify_instance(open_instance("small-2x2", copied)).troubles
    assert str(path) in trouble


def test_verify_exits_with_1_and_names_the_instance(copied: Path) -> None:
    command = [sys.executable, "-m", "recshard", "verify", "--folder", str(copied), "--json"]
    sound = subprocess.run(command, capture_output=True, text=True, check=False)
    assert sound.returncode == 0, sound.stderr
    assert json.loads(sound.stdout)["instances"][0]["verdict"] in ("verified", "recorded")
    (copied / "small-2x2" / PLACEMENT).unlink()
    broken = subprocess.run(command, capture_output=True, text=True, check=False)
    assert broken.returncode == 1
    assert "small-2x2: " in broken.stderr
    assert json.loads(broken.stdout)["instances"][0]["verdict"] == "disagrees"


def test_a_model_that_is_not_the_problems_is_named(copied: Path) -> None:
    path = copied / "small-2x2" / "model.mps"
    text = path.read_text()
    for broken in ("garbage\n", text.replace("RHS", "RHX"), text.replace(" 1.0", " 2.0", 1)):
        path.write_text(broken)
        (trouble,) = verify_instance(open_instance("small-2x2", copied)).troubles
        assert str(path) in trouble


def test_a_bound_of_solvers_is_verified_only_by_asking_them_again(copied: Path) -> None:
    path = copied / "small-2x2" / "instance.toml"
    text = re.sub(r'lower_bound_by = ".*"', 'lower_bound_by = "milp"', path.read_text())
    path.write_text(text)
    assert verify_instance(open_instance("small-2x2", copied)).verdict == "recorded"
    assert verify_instance(open_instance("small-2x2", copied), ["highs"], 60).verdict == "verified"
    path.write_text(text.replace("model = true", "model = false"))
    assert verify_instance(open_instance("small-2x2", copied)).verdict == "disagrees"


def test_solving_again_agrees_with_what_is_recorded() -> None:
    verdict = verify_instance(open_instance("small-2x3"), ["highs"], 60)
    assert verdict.troubles == ()
    assert [proof.solver for proof in verdict.proofs] == ["highs"]


def test_updating_keeps_the_problem_and_never_makes_it_worse(copied: Path) -> None:
    before = open_instance("small-2x2", copied)
    assert before.spec.best is not None
    after = update_instance(before, 0.2)
    assert after.spec.best is not None
    assert after.spec.best.bottleneck_ms <= before.spec.best.bottleneck_ms
    assert after.spec.best.lower_bound_ms >= before.spec.best.lower_bound_ms
    assert verify_instance(open_instance("small-2x2", copied)).troubles == ()
    problem = (library() / "small-2x2" / SPEC).read_text().split("# Results")[0]
    assert (copied / "small-2x2" / SPEC).read_text().startswith(problem)


@pytest.mark.parametrize(("bound", "kind"), [(0.0, "none"), (None, "none"), (1e9, "column")])
def test_a_solver_that_proves_nothing_raises_no_bound(
    copied: Path, monkeypatch: pytest.MonkeyPatch, bound: float | None, kind: str
) -> None:
    """Nothing is a bound of 0, no bound at all, or one of whole tables where tables may be cut."""
    path = copied / "small-2x2" / SPEC
    path.write_text(path.read_text().replace("[topology]", f'[split]\nkind = "{kind}"\n\n[topology]'))
    instance = open_instance("small-2x2", copied)
    placement = search(instance.problem, after_rounds(0)).placement
    stated = ProofSpec(solver="highs", version="1", optimum_ms=1e9, bound_ms=bound, seconds=1.0)
    monkeypatch.setattr("recshard.instances.update.solved", lambda *_: (stated, placement))
    best = update_instance(instance, 0.2, solvers=["highs"]).spec.best
    assert best is not None
    assert best.lower_bound_by != "milp"
    assert best.lower_bound_ms == pytest.approx(lower_bound(instance.problem, instance.rules).ms)
    # What an earlier version recorded as a MILP's is no proof of cut tables either.
    raised = best.model_copy(update={"lower_bound_ms": best.bottleneck_ms, "lower_bound_by": "milp"})
    instance = open_instance("small-2x2", copied)
    again = replace(instance, spec=instance.spec.model_copy(update={"best": raised}))
    kept = update_instance(again, 0.2).spec.best
    assert kept is not None
    assert (kept.lower_bound_by == "milp") == (kind == "none")


def test_what_is_proven_of_a_problem_is_dropped_when_the_problem_changes(copied: Path) -> None:
    recipe = copied / "small-2x2" / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("pooling_factor = [1.0, 4.0]", "pooling_factor = 1.0"))
    after = update_instance(open_instance("small-2x2", copied), 0.2)
    assert after.spec.best is not None
    assert after.spec.proofs == ()
    assert after.spec.best.lower_bound_by != "milp"
    assert verify_instance(open_instance("small-2x2", copied)).troubles == ()


def test_models_are_small() -> None:
    for name in SMALL:
        path = library() / name / MODEL
        assert not path.exists() or path.stat().st_size < 300_000
