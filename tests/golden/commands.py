"""The one place of the golden files that knows names of the code: commands, options, and a few Python calls.

Stored steps and questions use the names on the left. A command or option that is renamed changes here, on the right.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits
from typer.testing import CliRunner

from causalbald.cli._app import app
from causalbald.errors import CausalBaldError
from tests.golden.page import text_of

COMMANDS: dict[str, list[str]] = {
    name: ["campaign", name]
    for name in (
        *("new", "ask", "tell", "pending", "fail", "withdraw", "advice", "effects", "ate", "subgroups", "policy"),
        *("predict", "score", "report", "status", "history", "columns", "export", "import"),
    )
} | {
    "choose": ["choose"],
    "score pool": ["score"],
    "run": ["run"],
    "run status": ["status"],
    "table": ["table"],
    "pack": ["pack"],
    "models": ["models"],
    "acquisitions": ["acquisitions"],
}

OPTIONS = {
    # of a table
    **{"pool": "--pool", "id": "--id", "treatment": "--treatment", "control": "--control", "outcome": "--outcome"},
    **{"covariate": "--covariate", "exclude": "--exclude", "categorical": "--categorical", "numeric": "--numeric"},
    **{"better": "--better", "worthwhile": "--worthwhile", "outcome_type": "--outcome-type", "weight": "--weight"},
    **{"cost": "--cost", "budget": "--budget", "protected": "--protected", "audit": "--audit"},
    **{"model": "--model", "acquisition": "--acquisition", "seed": "--seed"},
    # of a campaign
    **{"n": "-n", "output": "-o", "json": "--json", "dry_run": "--dry-run", "overwrite": "--overwrite"},
    **{"reason": "--reason", "from": "--from", "alpha": "--alpha", "by": "--by"},
    # of a pool on disk, and of experiments
    **{"measured": "--measured", "batch": "--batch", "temperature": "--temperature", "out": "--out"},
    **{
        "workers": "--workers",
        "trials": "--trials",
        "target": "--target",
        "error": "--error",
        "baseline": "--baseline",
    },
    **{"labels": "--labels"},
}


def arguments_of(command: str, arguments: Sequence[str], options: dict[str, Any]) -> list[str]:
    """Return what one would type after ``causalbald``."""
    typed = [*COMMANDS[command]]
    for name, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            typed += [OPTIONS[name]] if one is True else [OPTIONS[name], str(one)]
    # After the options, and after "--", since ids may begin with a dash.
    return [*typed, "--", *arguments]


def call(command: str, *arguments: str, **options: Any) -> Any:
    """Run a command in this process; return its JSON or text, or what it says is wrong."""
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        try:
            result = CliRunner().invoke(app, arguments_of(command, arguments, options), catch_exceptions=False)
        except CausalBaldError as error:
            return {"error": str(error)}
    assert result.exit_code == 0, f"{command}: {result.output}"
    return json.loads(result.stdout) if options.get("json") else result.stdout


def report(study: str) -> dict[str, str]:
    """Return the text of a campaign's report."""
    page = Path("report.html")
    page.unlink(missing_ok=True)
    call("report", study, output=page)
    return {"report": text_of(page.read_text(encoding="utf-8"))}


MODELS = {"due": "DeepKernelGP", "ensemble": "TarnetEnsemble"}


def train(name: str, y: Any, t: Any, x: Any, **options: Any) -> Any:
    """Return a fitted model."""
    from causalbald import models

    return models.load(name, **options).fit(y, t, X=x)


def save(model: Any, path: Path) -> None:
    """Store a fitted deep model."""
    model.save(path)


def load(name: str, path: Path) -> Any:
    """Open a stored deep model."""
    from causalbald import models

    return getattr(models, MODELS[name]).load(path)


def beliefs(model: Any, x: Any) -> dict[str, Any]:
    """Return what a model believes of a few units."""
    with threadpool_limits(1):
        single, joint = model.posterior(x, joint=False), model.posterior(x)
        mean, variance = joint.average_effect()
        lower, upper = model.effect_interval(x, alpha=0.1)
    return {
        "mean": single.mean.tolist(),
        "variance": single.variance.tolist(),
        "noise": np.broadcast_to(single.noise, single.mean.shape).tolist(),
        "effect": single.effect_mean.tolist(),
        "effect_variance": single.effect_variance.tolist(),
        "lower": lower.tolist(),
        "upper": upper.tolist(),
        "average": float(mean),
        "average_variance": float(variance),
    }
