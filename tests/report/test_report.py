"""Figures and the demo page."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from causalbald import acquisition, datasets, figures, paper
from causalbald.cli._app import app
from causalbald.errors import InputError
from causalbald.models import GaussianProcess
from causalbald.report import figure_svg, render


def trials() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        [
            {"dataset": d, "acquisition": a, "seed": s, "labels": n, "pehe": 10 / n + rng.random()}
            for d in ("one", "two")
            for a in ("random", "mu-rho-bald", "third-party")
            for s in range(3)
            for n in (10, 20, 30)
        ]
    )


def test_convergence_draws_the_mean_of_every_method_in_every_panel() -> None:
    table = trials()
    figure = figures.convergence(table)
    assert [axes.get_title() for axes in figure.axes] == ["one (3 seeds)", "two (3 seeds)"]
    lines = {str(line.get_label()): line for line in figure.axes[0].get_lines()}
    assert set(lines) == {"random", "mu-rho-bald", "third-party"}
    expected = table[(table["dataset"] == "one") & (table["acquisition"] == "random")].groupby("labels")["pehe"].mean()
    np.testing.assert_allclose(np.asarray(lines["random"].get_ydata(), dtype=float), expected)
    with pytest.raises(InputError, match="no column"):
        figures.convergence(table.drop(columns="pehe"))


def test_every_method_has_its_own_look() -> None:
    looks = [figures.look(name) for name in acquisition.names()]
    assert len(set(looks)) == len(looks)
    assert figures.look("somebody-elses") == figures.look("somebody-elses")


def test_bias_draws_pool_acquired_and_effect() -> None:
    pool = datasets.load("synthetic", 0, pool=400).pool
    rows = np.arange(40)
    d = pool.take(rows)
    model = GaussianProcess(max_iter=5).fit(d.y, d.t, X=d.x)
    figure = paper.bias(pool, [paper.MeasuredSet("random", rows, model), paper.MeasuredSet("mu-bald", rows, model)])
    assert len(figure.axes) == 6
    truth = next(line for line in figure.axes[4].get_lines() if line.get_label() == "true effect")
    x, y = (np.asarray(v, dtype=float) for v in (truth.get_xdata(), truth.get_ydata()))
    middle = np.abs(x) < 1.5
    np.testing.assert_allclose(y[middle], (2 + 2 * x - 4 * np.sin(2 * x))[middle], atol=0.2)
    with pytest.raises(InputError, match="one covariate"):
        paper.bias(datasets.load("ihdp").pool, [paper.MeasuredSet("random", rows, model)])


def test_pages_escape_what_they_show() -> None:
    page = render("demo.html", rows=[], seeds=1, convergence="<b>", bias="", command="<script>", version="1", seconds=1)
    assert "<script>" not in page
    assert "&lt;b&gt;" in page
    svg = figure_svg(figures.convergence(trials()), 'a "quoted" picture')
    assert svg.startswith('<figure role="img" aria-label="a &#34;quoted&#34; picture"><svg')


def test_demo_writes_one_page_that_needs_no_network(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    result = CliRunner().invoke(
        app, ["demo", "--seeds", "1", "--steps", "2", "--workers", "1", "-o", str(target), "--json"]
    )
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [row["study"] for row in rows] == ["synthetic", "ihdp"]
    assert [row["labels random"] for row in rows] == [30, 120]
    assert target.name in result.stderr
    page = target.read_text()
    assert page.count("<svg") == 2
    addresses = set(re.findall(r'(?:src|href)="([^"#][^"]*)"', page))
    assert all(not a.startswith(("http:", "https:", "//")) for a in addresses)
    parser = HTMLParser()
    parser.feed(page)
    parser.close()
