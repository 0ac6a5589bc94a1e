"""Commands for pools on disk that are larger than memory: choose a batch, or score everyone."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from causalbald.cli import _campaign_words as table
from causalbald.cli._campaign_options import Json, check_output, filled_in, require_ours, table_at
from causalbald.cli._output import busy, print_json, print_table, progress_bar, say, write_table
from causalbald.errors import InputError

if TYPE_CHECKING:
    from causalbald._typing import Array
    from causalbald.pools import ParquetRound

app = typer.Typer()


class Batch(StrEnum):
    """How a batch follows from scores."""

    AUTO = "auto"
    GREEDY = "greedy"
    SOFTMAX = "softmax"


class Backend(StrEnum):
    """Where scores are computed."""

    LOCAL = "local"
    RAY = "ray"


_TABLE, _CHOICE, _WHERE = "The table", "How people are chosen", "Where it runs"
Pool = Annotated[
    Path,
    typer.Argument(metavar="POOL", help="Everyone who might be measured: a Parquet file, or a folder of them."),
]
Measured = Annotated[
    list[Path],
    typer.Option(
        metavar="FILE",
        help="CSV, Parquet or Excel table with ids and outcomes; people without an outcome count as asked for and not "
        "measured yet. Repeatable.",
        rich_help_panel=_TABLE,
    ),
]
Outcome = Annotated[
    str, typer.Option(metavar="COLUMN", help="What is measured, in the tables of --measured.", rich_help_panel=_TABLE)
]
Model = Annotated[str, typer.Option(metavar="NAME", help="One of `causalbald models`.", rich_help_panel=_CHOICE)]
Worthwhile = Annotated[
    float,
    typer.Option(
        metavar="NUMBER",
        help="Effect from which on treating is worth it, for regret.",
        rich_help_panel=_CHOICE,
    ),
]
Where = Annotated[
    Backend, typer.Option(help="The cores of this machine, or a Ray cluster (Ray Data).", rich_help_panel=_WHERE)
]
RayAddress = Annotated[
    str | None, typer.Option(help="Of a Ray cluster; default: one is started here.", rich_help_panel=_WHERE)
]


@app.command(
    epilog="Example: causalbald choose people.parquet --measured results.csv --id patient --treatment drug "
    "--control placebo --outcome cd4 -n 100 -o batch.csv"
)
def choose(
    pool: Pool,
    measured: Measured,
    id_: table.Id,
    treatment: table.Treatment,
    outcome: Outcome,
    control: table.Control = None,
    covariate: table.Covariate = None,
    exclude: table.Exclude = None,
    categorical: table.Categorical = None,
    numeric: table.Numeric = None,
    weight: table.Weight = None,
    worthwhile: Worthwhile = 0.0,
    n: Annotated[int, typer.Option("-n", help="People to choose.", min=1, rich_help_panel=_CHOICE)] = 100,
    model: Model = "gp",
    acquisition: table.Acquisition = "default",
    batch: Annotated[
        Batch, typer.Option(help="greedy: each after those before it; softmax: by score.", rich_help_panel=_CHOICE)
    ] = Batch.AUTO,
    temperature: Annotated[
        float | None,
        typer.Option(
            help="Of the softmax, 0 for the highest scores; default: the function's own.", rich_help_panel=_CHOICE
        ),
    ] = None,
    seed: table.Seed = 0,
    backend: Where = Backend.LOCAL,
    ray_address: RayAddress = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write a .csv or .parquet file, to fill in.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Choose whom to measure next from a pool on disk, larger than memory, in one go and without a campaign.

    The pool is read a part at a time. The batch is the one that would be chosen in memory. Its table has an empty
    column for the outcome: filled in, it is one more table for --measured.
    """
    import pyarrow as pa

    check_output(output)
    from causalbald.pools._round import OWN_COLUMNS

    round_ = _round(locals(), [id_, treatment, *OWN_COLUMNS])
    round_.check_size(n)
    with busy("fitting"):
        round_.rule(batch.value)
    scores = _scores(round_, locals())
    with progress_bar("choosing") as picked:
        found = round_.choose(n, acquisition, batch=batch.value, temperature=temperature, scores=scores, picked=picked)
    form = found.append_column(outcome, pa.nulls(len(found), pa.float64()))
    if output is not None:
        write_table(form, output, *round_.pool.files.paths)
        say(f"{len(found)} people in {output}. Fill in column {outcome!r}, and give it to --measured, too.")
    if as_json:
        print_json(found.to_pylist())
    elif output is None:
        print_table(form, as_json=False)


@app.command(
    epilog="Example: causalbald score people.parquet --measured results.csv --id patient --treatment drug "
    "--control placebo --outcome cd4 -o scores.parquet"
)
def score(
    pool: Pool,
    measured: Measured,
    id_: table.Id,
    treatment: table.Treatment,
    outcome: Outcome,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Parquet file to write.")],
    control: table.Control = None,
    covariate: table.Covariate = None,
    exclude: table.Exclude = None,
    categorical: table.Categorical = None,
    numeric: table.Numeric = None,
    weight: table.Weight = None,
    worthwhile: Worthwhile = 0.0,
    model: Model = "gp",
    acquisition: table.Acquisition = "default",
    seed: table.Seed = 0,
    backend: Where = Backend.LOCAL,
    ray_address: RayAddress = None,
    as_json: Json = False,
) -> None:
    """Score everyone in a pool on disk, larger than memory: the log of how important it would be to measure them."""
    from causalbald.pools._round import check_scores_file

    check_scores_file(output)
    round_ = _round(locals(), [id_, "score"])
    scores = _scores(round_, locals())
    round_.save_scores(scores, output)
    say(f"{len(scores):,} scores are in {output}.")
    if as_json:
        best = float(scores.max())
        print_json({"units": len(scores), "acquisition": acquisition, "highest": best, "output": str(output)})


def _check_names(given: Mapping[str, Any]) -> None:
    """Find misspelt names, and a cluster that is not there, before a large pool is read."""
    from causalbald import acquisition, models
    from causalbald._validation import check_number
    from causalbald._workers import check_address
    from causalbald.pools._round import check_on_disk

    if given["backend"] is Backend.RAY:
        check_address(given["ray_address"])
    elif given["ray_address"] is not None:
        raise InputError("--ray-address names a Ray cluster: add --backend ray, or leave it out.")
    function = acquisition.load(given["acquisition"])
    check_on_disk(function)
    if function.pointwise and (given["weight"] is not None or given["worthwhile"]):
        raise InputError(
            f"acquisition {function.name!r} asks neither who matters nor what is worthwhile: take a targeted one, such "
            "as tau-vr or regret, or leave --weight and --worthwhile out."
        )
    models.load(given["model"])
    if given.get("temperature") is not None:
        check_number(given["temperature"], "temperature", low=0.0)


def _protect(output: Path | None, given: Mapping[str, Any], columns: list[str]) -> None:
    """Refuse to write where it would destroy what is read, what somebody has filled in, or a table of the user's."""
    from causalbald.pools._round import OWN_COLUMNS

    if output is None:
        return
    target = output.resolve()
    if target in [p.resolve() for p in given["measured"]] or given["pool"].resolve() in (target, *target.parents):
        raise InputError(f"{str(output)!r} is read by this command, or lies in the pool: choose another --output.")
    if (table := table_at(target)) is None:
        return
    if count := filled_in(table, given["outcome"]):
        raise InputError(
            f"{str(output)!r} holds {count} outcomes: give it to --measured and choose another --output, or delete it."
        )
    batch = [given["id_"], given["treatment"], *OWN_COLUMNS, given["outcome"]]
    require_ours(table, output, columns, batch)
    if table.column_names == batch:
        raise InputError(
            f"{str(output)!r} holds people who may have been asked for: give it to --measured and choose another "
            "--output, or delete it."
        )


def _round(given: Mapping[str, Any], columns: list[str]) -> ParquetRound:
    """Open the pool and the tables, from the options of a command by name, which writes these ``columns``."""
    _check_names(given)
    _protect(given["output"], given, columns)
    with busy(f"reading {given['pool'].name}"):
        from causalbald.pools import ParquetPool, ParquetRound
        from causalbald.pools._files import ParquetFiles

        if given["weight"] is not None:
            ParquetFiles(given["pool"]).require(given["weight"], "weight")
        pool = ParquetPool(
            given["pool"],
            id=given["id_"],
            treatment=given["treatment"],
            control=given["control"],
            covariates=given["covariate"],
            exclude=[*(given["exclude"] or []), *({given["weight"]} - {None, *(given["covariate"] or [])})],
            kinds=table.kinds(given),
        )
        names = ("outcome", "model", "weight", "worthwhile", "seed")
        found = ParquetRound(pool, given["measured"], **{name: given[name] for name in names})
    numbers = sum(len(c.features) for c in pool.columns)
    say(
        f"{pool.name}: {len(pool):,} people, {len(pool.columns)} covariates as {numbers} numbers; "
        f"{len(found.measured):,} are measured, {len(found.pending):,} asked for."
    )
    useless = [f"{d.column} ({d.note})" for d in pool.described if d.use == "left out"]
    if useless:
        say(f"Left out: {', '.join(useless)}.")
    return found


def _scores(round_: ParquetRound, given: Mapping[str, Any]) -> Array:
    with busy("fitting"):
        _ = round_.model  # fitted when it is first asked for
    with progress_bar("scoring") as progress:
        options = {"backend": given["backend"].value, "ray_address": given["ray_address"], "progress": progress}
        return round_.scores(given["acquisition"], **options)
