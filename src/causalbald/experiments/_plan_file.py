"""Plans as text: TOML files, and lists of seeds."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from causalbald._validation import check_int
from causalbald.errors import InputError
from causalbald.experiments._plan import BenchmarkSettings, Plan, default_settings, preset_names
from causalbald.experiments._trial import LEAST_NUMBERS


def read_plan(path: str | Path) -> Plan:
    r"""Return the plan in a TOML file.

    Parameters
    ----------
    path : path
        The file's entries are the fields of :class:`Plan`. ``seeds`` are as for :func:`parse_seeds`, and a single name
        need not be in a list.

    Returns
    -------
    Plan

    Raises
    ------
    InputError
        If there is no such file, or it is not TOML, names no data sets, or has an entry that a plan does not have or
        that is of the wrong type. Whether names exist is checked by :meth:`Plan.specs`.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from causalbald.experiments import read_plan
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "plan.toml"
    ...     _ = path.write_text('datasets = ["synthetic"]\nseeds = "0-2"')
    ...     read_plan(path).seeds
    (0, 1, 2)
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no file {str(path)!r}: give a TOML file, or a --preset ({', '.join(preset_names())}).")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} is not valid TOML: {error}.") from error
    return plan_of(content, path.name)


def plan_of(content: dict[str, Any], source: str = "the plan") -> Plan:
    """Return the plan of a TOML file's content.

    Raises InputError as :func:`read_plan` does; its message names the ``source``. ``content`` is not changed.
    """
    _check_entries(content, [f.name for f in fields(Plan)], source)
    values: dict[str, Any] = dict(content)
    if "datasets" not in values:
        raise InputError(f"{source} names no datasets.")
    for name in ("datasets", "models", "acquisitions", "tracks"):
        if name in values:
            values[name] = _texts(values[name], f"{name} in {source}")
    if "seeds" in values:
        values["seeds"] = parse_seeds(values["seeds"])
    plan = Plan(**{**values, "settings": {}})
    names = [f.name for f in fields(BenchmarkSettings)]
    settings = _tables(values.get("settings", {}), plan.datasets, "settings", source)
    for dataset, entries in settings.items():
        _check_entries(entries, names, f"settings.{dataset} in {source}")
        _tables({"options": entries.get("options", {})}, ["options"], f"settings.{dataset}", source)
    _tables(plan.model_options, plan.models, "model_options", source)
    return replace(plan, settings={dataset: _settings(dataset, entries) for dataset, entries in settings.items()})


def parse_seeds(seeds: Any) -> tuple[int, ...]:
    """Return the seeds that a number, a list or a text stands for.

    Parameters
    ----------
    seeds : int, sequence of int or str
        A number n stands for the seeds 0 to n - 1. A sequence has the seeds themselves. A text has seeds and ranges
        that include both ends, such as ``0-19`` or ``0,3,7-9``.

    Returns
    -------
    tuple of int
        In the given order. Repeated seeds are kept; :meth:`Plan.specs` refuses them.

    Raises
    ------
    InputError
        If ``seeds`` are none of these, the number is below 1, or a seed is negative.

    Examples
    --------
    >>> from causalbald.experiments import parse_seeds
    >>> parse_seeds("0,3,7-9"), parse_seeds(2)
    ((0, 3, 7, 8, 9), (0, 1))
    """
    if isinstance(seeds, str):
        try:
            ranges = [[int(end) for end in part.split("-")] for part in seeds.split(",")]
        except ValueError:
            ranges = [[]]
        if not all(len(r) in (1, 2) and r[0] <= r[-1] for r in ranges):
            raise InputError(f"seeds {seeds!r} are not of the form 0-19 or 0,3,7-9.")
        return tuple(seed for r in ranges for seed in range(r[0], r[-1] + 1))
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        return tuple(range(check_int(seeds, "seeds", low=1)))
    if isinstance(seeds, Sequence):
        return tuple(check_int(seed, "seeds", low=0) for seed in seeds)
    raise InputError(f"seeds must be a number of seeds, a list or text such as '0-19', got {seeds!r}.")


def _settings(dataset: str, entries: dict[str, Any]) -> BenchmarkSettings:
    """Return a data set's settings: the file's ``entries``, and the paper's where the file has none.

    Raises InputError if a number is in neither. Called by :func:`plan_of`.
    """
    default = default_settings(dataset)
    missing = [name for name in LEAST_NUMBERS if name not in entries]
    if default is None and missing:
        raise InputError(f"settings.{dataset} lacks {missing[0]!r}.")
    return BenchmarkSettings(**entries) if default is None else replace(default, **entries)


def _tables(entry: Any, names: Sequence[str], what: str, source: str) -> dict[str, dict[str, Any]]:
    """Return ``entry`` unchanged; raise InputError unless it holds TOML tables, and only with these ``names``.

    ``what`` is the name of the entry in messages, and ``source`` that of the file.
    """
    if not isinstance(entry, dict):
        raise InputError(f"{what} in {source} must be a table, [{what}.NAME], got {entry!r}.")
    _check_entries(entry, list(names), f"{what} in {source}")
    for name, table in entry.items():
        if not isinstance(table, dict):
            raise InputError(f"{what}.{name} in {source} must be a table, [{what}.{name}], got {table!r}.")
    return entry


def _texts(entry: Any, what: str) -> tuple[str, ...]:
    """Return the texts of an entry, one or a list of them; raise InputError for anything else.

    ``what`` is the name of the entry in the message.
    """
    listed = [entry] if isinstance(entry, str) else entry
    if not isinstance(listed, list) or not all(isinstance(text, str) for text in listed):
        raise InputError(f"{what} must be a list of names, got {entry!r}.")
    return tuple(listed)


def _check_entries(entries: Iterable[str], names: list[str], where: str) -> None:
    """Raise InputError at the first of ``entries`` that is not among ``names``. The message starts with ``where``."""
    for name in entries:
        if name not in names:
            raise InputError(f"{where}: unknown entry {name!r}. Known: {', '.join(names)}.")
