"""Tables in which each plugin has one version: results of a plugin before and after an edit are never mixed."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from causalbald.errors import InputError, PluginWarning
from causalbald.experiments._spec import PLUGIN_KINDS, TrialSpec, is_loaded, plugin_version

if TYPE_CHECKING:
    from causalbald.experiments._store import Store

_REGISTER = "To compare two versions, register them under two names."


class _VersionedTrial(NamedTuple):
    """A trial's key, its folder, and the version of one of its plugins; None if the trial has no version of it."""

    key: str
    folder: str
    version: str | None


def of_one_version(table: pd.DataFrame, stores: Sequence[Store]) -> pd.DataFrame:
    """Return the rows of ``table`` in which each plugin has one version.

    That version is the one that is loaded, or the only one in the table if the plugin is not loaded. A PluginWarning
    says how many trials are omitted, and which version the trials of a plugin that is not loaded have.

    Parameters
    ----------
    table : DataFrame
        Rows with the ``key`` of their trial, as from :meth:`Store.rows`. It is not changed.
    stores : sequence of Store
        The folders that have the trials of ``table``.

    Returns
    -------
    DataFrame

    Raises
    ------
    InputError
        If a plugin that is not loaded has trials of several versions; if one folder has the loaded version of a plugin
        and another folder only other versions; or if no trial is left.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.experiments import Store, of_one_version
    >>> table = pd.DataFrame({"key": ["559f7826ad31"], "pehe": [1.5]})
    >>> len(of_one_version(table, [Store("a-folder-that-does-not-exist")]))
    1
    """
    trials: dict[tuple[str, str], list[_VersionedTrial]] = {}
    for spec, folder in _specs(set(table["key"]), stores):
        for kind in PLUGIN_KINDS:
            trial = _VersionedTrial(spec.key, folder, spec.plugins.get(kind))
            trials.setdefault((kind, getattr(spec, kind)), []).append(trial)
    outdated: set[str] = set()
    for (kind, name), trials_of_name in trials.items():
        outdated |= _outdated(kind, name, trials_of_name)
    rows = table[~table["key"].isin(outdated)].reset_index(drop=True) if outdated else table
    if rows.empty and not table.empty:
        raise InputError(
            "all trials are of another version of a plugin than the one that is loaded: run them again with "
            "`causalbald run`."
        )
    return rows


def _specs(keys: set[str], stores: Sequence[Store]) -> list[tuple[TrialSpec, str]]:
    """Return the finished trials with these keys, each with its folder.

    A trial that two folders have is returned twice. A trial that is not in a folder's plan is read from its own file.
    """
    specs = []
    for store in stores:
        planned = [spec for spec in store.planned() if spec.key in keys and store.is_done(spec)]
        unplanned = keys - {spec.key for spec in planned}
        stored = [spec for spec, _ in store.results() if spec.key in unplanned] if unplanned else []
        specs += [(spec, str(store.folder)) for spec in [*planned, *stored]]
    return specs


def _outdated(kind: str, name: str, trials: list[_VersionedTrial]) -> set[str]:
    """Return the keys of the trials that have another version of a plugin than the loaded one, and warn of them.

    ``kind`` is one of ``PLUGIN_KINDS``, ``name`` the plugin's name and ``trials`` all trials that name it. If the
    plugin is not loaded, no key is returned, and a warning names its version. Raises InputError as
    :func:`of_one_version` does.
    """
    versions = list(dict.fromkeys(trial.version for trial in trials))
    if not is_loaded(kind, name):
        if len(versions) > 1:
            raise InputError(
                f"{kind} {name!r} has trials of {len(versions)} versions: {_places(trials)}. Load the plugin to use "
                f"its trials alone: causalbald --plugin FILE. {_REGISTER}"
            )
        if versions[0] is not None:
            _warn(
                f"{kind} {name!r} is not loaded: its trials are of version {versions[0]}. To check whether your file "
                "has that version, load it: causalbald --plugin FILE."
            )
        return set()
    loaded = plugin_version(kind, name)
    outdated = {trial.key for trial in trials if trial.version != loaded}
    if not outdated:
        return set()
    up_to_date = {trial.folder for trial in trials if trial.version == loaded}
    if up_to_date and {trial.folder for trial in trials} - up_to_date:
        raise InputError(
            f"{kind} {name!r} is of different versions in these folders: {_places(trials)}. Version {loaded} is "
            f"loaded. Run the other folder again, or omit it. {_REGISTER}"
        )
    _warn(
        f"{kind} {name!r} has changed (now version {loaded}): {len(outdated)} trials of another version are left out. "
        "Run them again with `causalbald run`."
    )
    return outdated


def _warn(message: str) -> None:
    """Warn at the line that asked for the table, two calls above :func:`of_one_version`."""
    warnings.warn(message, PluginWarning, stacklevel=5)


def _places(trials: list[_VersionedTrial]) -> str:
    """Return in words how many trials of each version are in each folder, for messages."""
    counts = Counter((trial.version, trial.folder) for trial in trials)
    return "; ".join(
        f"{number} of version {version or 'unknown'} in {folder!r}" for (version, folder), number in counts.items()
    )
