"""The commands that fit the model: what a campaign has taught so far, and whether to go on."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from causalbald._words import estimate, percent, rounded
from causalbald.cli._campaign_options import CampaignPlace, PeopleOptions, fitting, hand_over, opened, with_interval
from causalbald.cli._options import Alpha, Json, Output
from causalbald.cli._output import busy, check_page, print_json, print_records, say

EFFECT_COLUMNS = ("effect", "sd", "lower", "upper")


def advice(
    study: CampaignPlace,
    n: Annotated[int, typer.Option("-n", help="How many more measurements to consider.", min=1)] = 10,
    as_json: Json = False,
) -> None:
    """Advise whether to go on: what more measurements would teach, what is settled, what has changed, money left.

    The verdict comes first, then its reasons. Nothing is recorded.
    """
    with fitting(study) as campaign:
        advice = campaign.advice(n)
    if as_json:
        print_json(asdict(advice))
        return
    typer.echo(advice.verdict)
    for reason in advice.reasons:
        typer.echo(f"- {reason}")


def score(study: CampaignPlace, people: PeopleOptions, output: Output = None, as_json: Json = False) -> None:
    """Rank people by how important it is to measure them now. Nothing is recorded.

    By default these are all people who can still be measured. `beats` is the
    share of those people who have a lower score.
    """
    with fitting(study, output, ["score", "beats", *EFFECT_COLUMNS, "outside_support"]) as campaign:
        scores = campaign.score(people.some_or_all())
    hand_over(scores, output, campaign.storage.file, as_json=as_json, readable=with_interval(0.05))


def effects(
    study: CampaignPlace,
    people: PeopleOptions,
    output: Output = None,
    alpha: Alpha = 0.05,
    as_json: Json = False,
) -> None:
    """Estimate everyone's effect of the treatment, in the outcome's own unit, with an interval.

    With IDs or --from, only these people are listed. An interval holds a person's
    expected effect, given the model. It does not include how single outcomes
    scatter.
    """
    with fitting(study, output, [*EFFECT_COLUMNS, "outside_support"]) as campaign:
        table = campaign.effects(people.some_or_all(), alpha=alpha)
    hand_over(table, output, campaign.storage.file, as_json=as_json, readable=with_interval(alpha))


def ate(study: CampaignPlace, alpha: Alpha = 0.05, as_json: Json = False) -> None:
    """Estimate the average effect over the whole pool, with an interval from the joint belief about everyone."""
    with fitting(study) as campaign:
        average = campaign.ate(alpha=alpha)
        settings = campaign.settings
    if as_json:
        print_json(asdict(average))
        return
    print_records([asdict(average)], as_json=False)
    say(
        f"On average {settings.outcome!r} is {average.effect:+.3g} under {settings.arm_names[1]!r} against "
        f"{settings.arm_names[0]!r}, {percent(1 - alpha)} interval {rounded(average.lower)} to "
        f"{rounded(average.upper)}; {settings.better} is better."
    )


def subgroups(
    study: CampaignPlace,
    by: Annotated[str, typer.Option(help="Column of the pool that makes the groups. Numbers are cut into fifths.")],
    output: Output = None,
    alpha: Alpha = 0.05,
    as_json: Json = False,
) -> None:
    """Estimate the average effect in each group of a column, with intervals from the joint belief."""
    with fitting(study, output, [by, "units", *EFFECT_COLUMNS]) as campaign:
        table = campaign.subgroups(by, alpha=alpha)
    hand_over(table, output, campaign.storage.file, as_json=as_json, readable=with_interval(alpha), rows=None)


def policy(study: CampaignPlace, output: Output = None, alpha: Alpha = 0.05, as_json: Json = False) -> None:
    """Recommend whom to treat, given what is better and worthwhile, with what that gains and how sure it is.

    The table has a row per person of the pool. The sentence after it is about the
    whole pool; --json prints both.
    """
    columns = ("recommended", "probability_worthwhile", "settled")
    with fitting(study, output, [*columns, *EFFECT_COLUMNS, "outside_support"]) as campaign:
        policy = campaign.policy(alpha=alpha)
        settings = campaign.settings
    numbers = {name: getattr(policy, name) for name in ("treated", "gain", "lower", "upper", "gain_of_all", "settled")}
    if output is not None or not as_json:
        hand_over(policy.units, output, campaign.storage.file, as_json=False, readable=with_interval(alpha))
    if as_json:
        print_json(numbers | {"units": policy.units.to_pylist()})
        return
    say(
        f"{percent(policy.treated)} of people should get {settings.arm_names[1]!r}. Per person of the whole pool this "
        f"gains {estimate(policy.gain, policy.lower, policy.upper)} in {settings.outcome!r}, where {settings.better} "
        f"is better; giving it to everyone would gain {rounded(policy.gain_of_all)}. For {percent(policy.settled)} it "
        "is settled at 95 % whether it is worthwhile."
    )


def predict(
    study: CampaignPlace,
    table: Annotated[Path, typer.Argument(metavar="FILE", help="Table of other people with the same covariates.")],
    output: Output = None,
    alpha: Alpha = 0.05,
    as_json: Json = False,
) -> None:
    """Estimate the effects of people in another table, and what to recommend to them.

    Rows are in the order of that table. Nothing is recorded, and these people do
    not join the pool.
    """
    with fitting(study, output, [*EFFECT_COLUMNS, "recommended", "outside_support"]) as campaign:
        effects = campaign.predict(table, alpha=alpha)
    hand_over(effects, output, campaign.storage.file, table, as_json=as_json, readable=with_interval(alpha))


def report(
    study: CampaignPlace,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="HTML file to write.")],
) -> None:
    """Write one HTML page: who was asked for, what was learned, and whether arms and groups are fairly represented.

    A page of this name is replaced. Without two outcomes of each arm, the page
    has no effects.
    """
    from causalbald.report import write_report

    check_page(output)
    with opened(study) as campaign, busy("fitting and drawing"):
        write_report(campaign, output)
    say(f"Report: {output.resolve()}")
