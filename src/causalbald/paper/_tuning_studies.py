"""Studies of optuna: opened by name, shared between workers through a database, and refused if they do not match."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import sleep
from typing import TYPE_CHECKING, Any

from causalbald._addresses import without_passwords
from causalbald.errors import InputError
from causalbald.paper._tuning_task import FIRST_RUNG_EPOCHS, RUNG_FACTOR

if TYPE_CHECKING:
    import optuna

# Pauses, in seconds, before a database is tried again.
_PAUSES = (0.5, 2.0)
# Seconds for which a worker waits while another writes. SQLite lets one worker write at a time.
_SQLITE_TIMEOUT = 60


@contextmanager
def open_study(url: str | None, name: str) -> Iterator[optuna.Study]:
    """Yield the study of this name in the database at ``url``: a new study, or the one that workers have recorded.

    Without a URL, the study is in memory. Raises InputError, without passwords, if the database cannot be used. Within
    the context, optuna does not log single trials. Afterwards its log level is restored, and the database is closed.
    """
    import optuna  # an optional dependency
    from sqlalchemy.exc import SQLAlchemyError

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))
    database = None
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=FIRST_RUNG_EPOCHS, reduction_factor=RUNG_FACTOR)
    try:
        try:
            database = None if url is None else connect(url)
            study = optuna.create_study(
                storage=database, study_name=name, load_if_exists=True, direction="maximize", pruner=pruner
            )
        except (SQLAlchemyError, optuna.exceptions.OptunaError, ImportError, ValueError, RuntimeError) as error:
            reason = without_passwords(str(error).partition("\n")[0], [url or ""])
            raise InputError(
                f"the storage cannot be used ({reason}). Give the URL of a database that can be reached, such as "
                "sqlite:///tuning.db or postgresql+psycopg://user@host/database."
            ) from error
        yield study
    finally:
        if database is not None:
            database.remove_session()
            database.engine.dispose()
        optuna.logging.set_verbosity(before)


def connect(url: str) -> optuna.storages.RDBStorage:
    """Return optuna's storage in the database at a URL, with its tables made if needed. The caller closes it.

    After an error of the database, this tries twice more: another worker may be making the tables at the same moment.
    The last error is raised as it is.
    """
    import optuna  # an optional dependency
    from sqlalchemy.exc import DBAPIError

    arguments = {"connect_args": {"timeout": _SQLITE_TIMEOUT}} if url.startswith("sqlite") else {}
    for pause in _PAUSES:
        try:
            return optuna.storages.RDBStorage(url, engine_kwargs=arguments)
        except DBAPIError:
            sleep(pause)
    return optuna.storages.RDBStorage(url, engine_kwargs=arguments)


def check_settings(study: optuna.Study, settings: dict[str, Any]) -> None:
    """Record ``settings`` in a new study; raise InputError if an earlier study was made with others.

    Scores of trials with other settings cannot be compared. Only the names in ``settings`` are compared.
    """
    recorded = study.user_attrs.get("settings")
    if recorded is None:
        study.set_user_attr("settings", settings)
        return
    different = [k for k in settings if recorded.get(k) != settings[k]]
    if different:
        k = different[0]
        raise InputError(
            f"study {study.study_name!r} was made with {k} {recorded.get(k)!r}, not {settings[k]!r}: "
            "give the same settings, or another study name."
        )


def finished_trials(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Return the trials that have ended: complete, pruned or failed.

    The trial of a killed worker is recorded as running for ever, and is not among them.
    """
    return [t for t in study.get_trials(deepcopy=False) if t.state.is_finished()]
