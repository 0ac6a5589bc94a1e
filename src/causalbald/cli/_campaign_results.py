"""The commands that fit the model: what a campaign has taught so far, and whether to go on."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from causalbald.cli._campaign_options import (
    Alpha,
    CampaignPlace,
    IdFile,
    Ids,
    Json,
    Output,
    fitting,
    hand_over,
    interval,
    opened,
    people,
    percent,
    with_interval,
)
from causalbald.cli._output import busy, check_page, print_json, print_records, say

_EFFECT = ("effect", "sd", "lower", "upper")


def advice(
    study: CampaignPlace,
    n: Annotated[int, typer.Option("-n", help="How many more measurements are thought of.", min=1)] = 10,
    as_json: Json = False,
) -> None:
    """Say whether to go on: what more measurements would teach, what is settled, what has changed, money left."""
    with fitting(study) as campaign:
        found = campaign.advice(n)
    if as_json:
        print_json(asdict(found))
        return
    typer.echo(found.verdict)
    for reason in found.reasons:
        typer.echo(f"- {reason}")


def score(
    study: CampaignPlace, ids: Ids = None, table: IdFile = None, output: Output = None, as_json: Json = False
) -> None:
    """Rank people by how important it would be to measure them now; records nothing.

    `beats` is the share of those who can still be measured with a lower score.
    """
    with fitting(study, output, ["score", "beats", *_EFFECT, "outside_support"]) as campaign:
        found = campaign.score(people(ids, table))
    hand_over(found, output, campaign.storage.file, as_json=as_json, readable=with_interval(0.05))


def effects(
    study: CampaignPlace,
    ids: Ids = None,
    table: IdFile = None,
    output: Output = None,
    alpha: Alpha = 0.05,
    as_json: Json = False,
) -> None:
    """Estimate everyone's effect of the treatment, in the outcome's own unit, with an interval.

    Intervals hold a person's expected effect, given the model; how single outcomes scatter is not part of them.
    """
    with fitting(study, output, [*_EFFECT, "outside_support"]) as campaign:
        found = campaign.effects(people(ids, table), alpha=alpha)
    hand_over(found, output, campaign.storage.file, as_json=as_json, readable=with_interval(alpha))


def ate(study: CampaignPlace, alpha: Alpha = 0.05, as_json: Json = False) -> None:
    """Estimate the average effect over the whole pool, with an interval from the joint belief about everyone."""
    with fitting(study) as campaign:
        found = campaign.ate(alpha=alpha)
        settings = campaign.settings
    if as_json:
        print_json(asdict(found))
        return
    print_records([asdict(found)], as_json=False)
    say(
        f"On average {settings.outcome!r} is {found.effect:+.3g} under {settings.arm_names[1]!r} against "
        f"{settings.arm_names[0]!r}, {percent(1 - alpha)} interval {found.lower:.3g} to {found.upper:.3g}; "
        f"{settings.better} is better."
    )


def subgroups(
    study: CampaignPlace,
    by: Annotated[str, typer.Option(help="Column of the pool; numbers are cut into fifths.")],
    output: Output = None,
    alpha: Alpha = 0.05,
    as_json: Json = False,
) -> None:
    """Estimate the average effect in each group of a column, with intervals from the joint belief."""
    with fitting(study, output, [by, "units", *_EFFECT]) as campaign:
        found = campaign.subgroups(by, alpha=alpha)
    hand_over(found, output, campaign.storage.file, as_json=as_json, readable=with_interval(alpha), rows=None)


def policy(study: CampaignPlace, output: Output = None, alpha: Alpha = 0.05, as_json: Json = False) -> None:
    """Say whom to treat, given what is better and what is worthwhile, what that gains, and how sure it is."""
    own = ("recommended", "probability_worthwhile", "settled")
    with fitting(study, output, [*own, *_EFFECT, "outside_support"]) as campaign:
        found = campaign.policy(alpha=alpha)
        settings = campaign.settings
    numbers = {name: getattr(found, name) for name in ("treated", "gain", "lower", "upper", "gain_of_all", "settled")}
    if output is not None or not as_json:
        hand_over(found.units, output, campaign.storage.file, as_json=False, readable=with_interval(alpha))
    if as_json:
        print_json(numbers | {"units": found.units.to_pylist()})
        return
    say(
        f"{percent(found.treated)} of people should get {settings.arm_names[1]!r}. Per person of the whole pool this "
        f"gains {interval(found.gain, found.lower, found.upper)} in {settings.outcome!r}, where {settings.better} is "
        f"better; giving it to everyone would gain {found.gain_of_all:.3g}. For {percent(found.settled)} it is settled "
        "at 95 % whether it is worthwhile."
    )


def predict(
    study: CampaignPlace,
    table: Annotated[Path, typer.Argument(metavar="FILE", help="Table of other people, with the same covariates.")],
    output: Output = None,
    alpha: Alpha = 0.05,
    as_json: Json = False,
) -> None:
    """Estimate the effects of people in another table, and what to recommend to them."""
    with fitting(study, output, [*_EFFECT, "recommended", "outside_support"]) as campaign:
        found = campaign.predict(table, alpha=alpha)
    hand_over(found, output, campaign.storage.file, table, as_json=as_json, readable=with_interval(alpha))


def report(
    study: CampaignPlace,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="HTML file to write.")],
) -> None:
    """Write one HTML page: who was asked for, what was learned, whether arms and groups are fairly represented."""
    from causalbald.report import write_report

    check_page(output)
    with opened(study) as campaign, busy("fitting and drawing"):
        write_report(campaign, output)
    say(f"Report: {output.resolve()}")
