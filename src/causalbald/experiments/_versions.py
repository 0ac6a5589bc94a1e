"""Tables in which each plugin is of one version: results of a plugin before and after an edit are never mixed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from causalbald.errors import InputError, PluginWarning
from causalbald.experiments._spec import PLUGIN_KINDS, TrialSpec, is_loaded, plugin_version

if TYPE_CHECKING:
    from causalbald.experiments._store import Store

_REGISTER = "To compare two versions, register them under two names."


class _Trial(NamedTuple):
    key: str
    folder: str
    version: str | None


def of_one_version(table: pd.DataFrame, stores: Sequence[Store]) -> pd.DataFrame:
    """Return the rows of ``table`` whose plugins are of the version that is loaded, or else of the only one there is.

    A PluginWarning says which trials are left out, and the version of plugins that are not loaded.

    Parameters
    ----------
    table : DataFrame
        Rows with the ``key`` of their trial.
    stores : sequence of Store
        Where the trials are.

    Raises
    ------
    InputError
        If a plugin that is not loaded has trials of several versions, if a folder has only another version than the
        one that is loaded and that another folder has, or if no trial is left.
    """
    trials: dict[tuple[str, str], list[_Trial]] = {}
    for spec, folder in _specs(set(table["key"]), stores):
        for kind in PLUGIN_KINDS:
            trial = _Trial(spec.key, folder, spec.plugins.get(kind))
            trials.setdefault((kind, getattr(spec, kind)), []).append(trial)
    outdated: set[str] = set()
    for (kind, name), its_trials in trials.items():
        outdated |= _outdated(kind, name, its_trials)
    rows = table[~table["key"].isin(outdated)].reset_index(drop=True) if outdated else table
    if rows.empty and not table.empty:
        raise InputError(
            "all trials are of another version of a plugin than the one that is loaded: run them again with "
            "`causalbald run`."
        )
    return rows


def _specs(keys: set[str], stores: Sequence[Store]) -> list[tuple[TrialSpec, str]]:
    """Return the trials that have these keys, each with the folders that hold it."""
    specs = []
    for store in stores:
        planned = [spec for spec in store.planned() if spec.key in keys and store.is_done(spec)]
        unplanned = keys - {spec.key for spec in planned}
        stored = [spec for spec, _ in store.results() if spec.key in unplanned] if unplanned else []
        specs += [(spec, str(store.folder)) for spec in [*planned, *stored]]
    return specs


def _outdated(kind: str, name: str, trials: list[_Trial]) -> set[str]:
    """Return the keys of a plugin's trials that are of another version than the one to be used."""
    versions = list(dict.fromkeys(trial.version for trial in trials))
    if not is_loaded(kind, name):
        if len(versions) > 1:
            raise InputError(
                f"{kind} {name!r} has trials of {len(versions)} versions: {_places(trials)}. Load the plugin to use "
                f"its trials alone: causalbald --plugin FILE. {_REGISTER}"
            )
        if versions[0] is not None:
            message = (
                f"{kind} {name!r} is not loaded: its trials are of version {versions[0]}. Whether that is the version "
                "of your file is checked with causalbald --plugin FILE."
            )
            warnings.warn(message, PluginWarning, stacklevel=4)
        return set()
    loaded = plugin_version(kind, name)
    outdated = {trial.key for trial in trials if trial.version != loaded}
    if not outdated:
        return set()
    up_to_date = {trial.folder for trial in trials if trial.version == loaded}
    if up_to_date and {trial.folder for trial in trials} - up_to_date:
        raise InputError(
            f"{kind} {name!r} is of different versions in these folders: {_places(trials)}. Version {loaded} is "
            f"loaded. Run the other folder again, or leave it out. {_REGISTER}"
        )
    message = (
        f"{kind} {name!r} has changed (now version {loaded}): {len(outdated)} trials of another version are left out. "
        "Run them again with `causalbald run`."
    )
    warnings.warn(message, PluginWarning, stacklevel=4)
    return outdated


def _places(trials: list[_Trial]) -> str:
    """Return in words how many trials of which version are in which folder."""
    counts: dict[tuple[str | None, str], int] = {}
    for trial in trials:
        place = (trial.version, trial.folder)
        counts[place] = counts.get(place, 0) + 1
    return "; ".join(
        f"{number} of version {version or 'unknown'} in {folder!r}" for (version, folder), number in counts.items()
    )
