"""Commands for pools on disk that are larger than memory: choose a batch, or score everyone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from causalbald._choices import BatchRule
from causalbald.cli import _table_options as table
from causalbald.cli._campaign_options import check_output, filled_in, require_ours, table_at
from causalbald.cli._options import BackendOptions, Json, grouped
from causalbald.cli._output import busy, print_json, print_table, progress_bar, say, write_table
from causalbald.errors import InputError

if TYPE_CHECKING:
    from causalbald._typing import Array
    from causalbald.pools import ParquetRound

app = typer.Typer()


@dataclass(frozen=True, kw_only=True)
class PoolOptions(table.ColumnOptions):
    """What `choose` and `score` take: a pool on disk, what was measured in it, and how people are scored."""

    pool: Annotated[
        Path,
        typer.Argument(metavar="POOL", help="Everyone who might be measured: a Parquet file, or a folder of them."),
    ]
    measured: Annotated[
        list[Path],
        typer.Option(
            metavar="FILE",
            help="CSV, Parquet or Excel table with ids and outcomes. A person without an outcome counts as asked for, "
            "but not measured yet. Repeatable.",
            rich_help_panel=table.TABLE,
        ),
    ]
    outcome: Annotated[
        str,
        typer.Option(
            metavar="COLUMN", help="What is measured: a column of the --measured tables.", rich_help_panel=table.TABLE
        ),
    ]
    weight: table.Weight = None
    worthwhile: Annotated[
        float,
        typer.Option(
            metavar="NUMBER",
            help="The effect above which the treatment is worth it, for acquisition function regret.",
            rich_help_panel=table.CHOICE,
        ),
    ] = 0.0
    model: table.Model = "gp"
    acquisition: table.Acquisition = "default"
    seed: table.Seed = 0


@app.command(
    epilog="Example: causalbald choose people.parquet --measured results.csv --id patient --treatment drug "
    "--control placebo --outcome cd4 -n 100 -o batch.csv"
)
@grouped
def choose(
    options: PoolOptions,
    where: BackendOptions,
    n: Annotated[int, typer.Option("-n", help="How many people to choose.", min=1, rich_help_panel=table.CHOICE)] = 100,
    batch: Annotated[
        BatchRule,
        typer.Option(
            help="greedy: one person after another, given those before; softmax: drawn by score; auto: greedy if the "
            "model knows how people are related.",
            rich_help_panel=table.CHOICE,
        ),
    ] = "auto",
    temperature: Annotated[
        float | None,
        typer.Option(
            help="How random softmax is: 0 takes the highest scores. By default the acquisition function decides.",
            rich_help_panel=table.CHOICE,
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write a .csv or .parquet file, to fill in.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Choose whom to measure next from a pool on disk, larger than memory, at once and without a campaign.

    The pool is read in parts. The batch is the batch that would be chosen in
    memory. Nothing is recorded: the next call knows of this batch only if its
    file is added with --measured. The file has an empty column for the outcome,
    to be filled in.
    """
    import pyarrow as pa

    from causalbald._validation import check_number
    from causalbald.pools import RESULT_COLUMNS

    check_output(output)
    if temperature is not None:
        check_number(temperature, "temperature", low=0.0)
    round_ = _open_round(options, where, output, [options.id, options.treatment, *RESULT_COLUMNS])
    round_.check_size(n)
    with busy("fitting"):
        round_.rule(batch)
    scores = _scores(round_, options.acquisition, where)
    with progress_bar("choosing") as picked:
        chosen = round_.choose(
            n, options.acquisition, batch=batch, temperature=temperature, scores=scores, picked=picked
        )
    form = chosen.append_column(options.outcome, pa.nulls(len(chosen), pa.float64()))
    if output is not None:
        write_table(form, output, *round_.pool.files.paths)
        say(f"{len(chosen)} people are in {output}. Fill in column {options.outcome!r}, and add it with --measured.")
    if as_json:
        print_json(chosen.to_pylist())
    elif output is None:
        print_table(form, as_json=False)


@app.command(
    epilog="Example: causalbald score people.parquet --measured results.csv --id patient --treatment drug "
    "--control placebo --outcome cd4 -o scores.parquet"
)
@grouped
def score(
    options: PoolOptions,
    where: BackendOptions,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Parquet file to write.")],
    as_json: Json = False,
) -> None:
    """Score everyone in a pool on disk, larger than memory: the log of how important it is to measure each person.

    The file has the id and the score of each person, in the order of the pool.
    """
    from causalbald.pools import check_scores_file

    check_scores_file(output)
    round_ = _open_round(options, where, output, [options.id, "score"])
    scores = _scores(round_, options.acquisition, where)
    round_.save_scores(scores, output)
    say(f"{len(scores):,} scores are in {output}.")
    if as_json:
        best = float(scores.max())
        summary = {"units": len(scores), "acquisition": options.acquisition, "highest": best, "output": str(output)}
        print_json(summary)


def _open_round(options: PoolOptions, where: BackendOptions, output: Path | None, columns: list[str]) -> ParquetRound:
    """Return the round on the pool and the tables of the options; its model is not fitted yet.

    Called by `choose` and `score`, which write these ``columns`` to ``output``. Mistakes in options and an ``output``
    that must be kept raise InputError before the pool is read. Then the number of people, covariates and outcomes, and
    the columns that are left out, are printed to stderr.
    """
    _check_names(options, where)
    _protect(output, options, columns)
    # A weight is no covariate, unless it is named as one.
    weight = [options.weight] if options.weight and options.weight not in (options.covariate or []) else []
    with busy(f"reading {options.pool.name}"):
        from causalbald.pools import ParquetPool, ParquetRound
        from causalbald.tables import ParquetFiles

        if options.weight is not None:
            ParquetFiles(options.pool).require(options.weight, "weight")
        pool = ParquetPool(
            options.pool,
            id=options.id,
            treatment=options.treatment,
            control=options.control,
            covariates=options.covariate,
            exclude=[*(options.exclude or []), *weight],
            kinds=options.kinds(),
        )
        round_ = ParquetRound(
            pool,
            options.measured,
            outcome=options.outcome,
            model=options.model,
            weight=options.weight,
            worthwhile=options.worthwhile,
            seed=options.seed,
        )
    numbers = sum(len(column.features) for column in pool.columns)
    say(
        f"{pool.name}: {len(pool):,} people, {len(pool.columns)} covariates as {numbers} numbers; "
        f"{len(round_.measured):,} are measured, {len(round_.pending):,} asked for."
    )
    useless = [f"{column.column} ({column.note})" for column in pool.summaries if column.use == "left out"]
    if useless:
        say(f"Left out: {', '.join(useless)}.")
    return round_


def _check_names(options: PoolOptions, where: BackendOptions) -> None:
    """Raise InputError, before a large pool is read, for options that cannot be used.

    These are unknown models and acquisition functions, functions without scores of single units, an address of Ray
    without --backend ray, and --weight or --worthwhile with a function that ignores them.
    """
    from causalbald import acquisition, models
    from causalbald._workers import check_address
    from causalbald.pools import check_on_disk

    if where.backend == "ray":
        check_address(where.ray_address)
    elif where.ray_address is not None:
        raise InputError("--ray-address names a Ray cluster: add --backend ray, or leave it out.")
    function = acquisition.load(options.acquisition)
    check_on_disk(function)
    if not function.needs_population and (options.weight is not None or options.worthwhile):
        raise InputError(
            f"acquisition {function.name!r} asks neither who matters nor what is worthwhile: take a targeted one, such "
            "as tau-vr or regret, or leave --weight and --worthwhile out."
        )
    models.load(options.model)


def _protect(output: Path | None, options: PoolOptions, columns: list[str]) -> None:
    """Raise InputError if ``output`` must not be replaced; nothing happens if it is None or has no file.

    A file must be kept if this command reads it, if it lies in the pool's folder, if it holds outcomes or a batch, or
    if it is the user's own table: one with other columns than ``columns`` or those of a batch.
    """
    from causalbald.pools import RESULT_COLUMNS

    if output is None:
        return
    target = output.resolve()
    measured = [path.resolve() for path in options.measured]
    if target in measured or options.pool.resolve() in (target, *target.parents):
        raise InputError(f"{str(output)!r} is read by this command, or lies in the pool: choose another --output.")
    if (old := table_at(target)) is None:
        return
    if count := filled_in(old.data, options.outcome):
        raise InputError(
            f"{str(output)!r} holds {count} outcomes: give it to --measured and choose another --output, or delete it."
        )
    batch = [options.id, options.treatment, *RESULT_COLUMNS, options.outcome]
    require_ours(old.data, output, columns, batch)
    if old.data.column_names == batch:
        raise InputError(
            f"{str(output)!r} holds people who may have been asked for: give it to --measured and choose another "
            "--output, or delete it."
        )


def _scores(round_: ParquetRound, acquisition: str, where: BackendOptions) -> Array:
    """Return the score (N,) of each unit of the pool, after fitting the model, and show how far the work is."""
    with busy("fitting"):
        _ = round_.model  # it is fitted when it is first read
    with progress_bar("scoring") as progress:
        return round_.scores(acquisition, backend=where.backend, ray_address=where.ray_address, progress=progress)
