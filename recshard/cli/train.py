"""`recshard train`: a cost model from measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recshard.cli.output import Json, emit, every_few_seconds


def command(
    measurements: Annotated[Path, typer.Argument(help="A folder that `recshard measure` wrote.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The cost model's folder.")],
    seed: Annotated[int, typer.Option(help="Of the weights and of the held-out shards.", min=0)] = 0,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the training shards (default: as tested).", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Train a cost model on measured shards, and test it on a fifth of them that it has not seen."""
    from rich.text import Text

    from recshard.cost import load_measurements, save_cost_model, train_cost_model
    from recshard.cost.train import EPOCHS
    from recshard.files import check_writable

    check_writable(output, "card.json")
    model = train_cost_model(
        load_measurements(measurements),
        seed,
        EPOCHS if epochs is None else epochs,
        progress=every_few_seconds("train", "epochs"),
    )
    save_cost_model(model, output)
    card = model.card
    learned = card.shards - card.held_out_shards
    sentence = (
        f"{output}: {learned} shards learned; on the {card.held_out_shards} held out the error is "
        f"{card.held_out.median_error:.1%} in the median, {card.held_out.p90_error:.1%} at the 90th percentile "
        f"(a straight line through bytes: {card.baseline.median_error:.1%} and {card.baseline.p90_error:.1%})"
    )
    emit(as_json, card.model_dump, lambda: Text(sentence))
