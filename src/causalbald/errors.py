"""One tree of exceptions and warnings. A message names what is wrong and what to do about it."""

from __future__ import annotations


class CausalBaldError(Exception):
    """Base of every exception that this package raises on purpose.

    Examples
    --------
    >>> from causalbald import acquisition, errors
    >>> try:
    ...     acquisition.load("mu-roh-bald")
    ... except errors.CausalBaldError as error:
    ...     print(str(error).partition(" Known")[0])
    unknown acquisition 'mu-roh-bald'. Did you mean 'mu-rho-bald'?
    """


class InputError(CausalBaldError, ValueError):
    """An argument cannot be used. The message names the argument, the reason and the remedy.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald import errors, selection
    >>> try:
    ...     selection.select([0.0, 1.0], 3, temperature=0.0, rng=np.random.default_rng(0))
    ... except errors.InputError as error:
    ...     print(error)
    3 units asked for, but only 2 can be chosen: ask for fewer.
    """


class UnknownNameError(InputError):
    """No acquisition function, model or data set has this name. The message lists the names that exist.

    Examples
    --------
    >>> from causalbald import datasets, errors
    >>> try:
    ...     datasets.load("ihpd")
    ... except errors.UnknownNameError as error:
    ...     print("Did you mean 'ihdp'?" in str(error))
    True
    """


class TrainingError(CausalBaldError, RuntimeError):
    """A model could not be trained on these labels. The message says what to change.

    Examples
    --------
    >>> from causalbald import errors
    >>> issubclass(errors.TrainingError, RuntimeError)
    True
    """


class StorageError(CausalBaldError, RuntimeError):
    """A campaign could not be read or written. The message says where and what to do.

    Examples
    --------
    >>> from causalbald import Campaign, errors
    >>> try:
    ...     Campaign("no-such-study.db")
    ... except errors.StorageError as error:
    ...     print(error)
    there is no file 'no-such-study.db': check the name, or create a campaign there.
    """


class CampaignExistsError(StorageError):
    """There is a campaign already where one was to be created.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald import Campaign, errors
    >>> from causalbald.campaign.storage import MemoryStorage
    >>> people = pd.DataFrame({"id": range(60), "drug": [0, 1] * 30, "age": range(20, 80)})
    >>> storage = MemoryStorage()
    >>> campaign = Campaign.create(storage, people, id="id", treatment="drug", outcome="pain")
    >>> try:
    ...     Campaign.create(storage, people, id="id", treatment="drug", outcome="pain")
    ... except errors.CampaignExistsError:
    ...     print("open it with Campaign(storage)")
    open it with Campaign(storage)
    """


class CausalBaldWarning(UserWarning):
    """Base of this package's warnings.

    Examples
    --------
    >>> import warnings
    >>> from causalbald import errors
    >>> warnings.simplefilter("error", errors.CausalBaldWarning)  # every warning of this package becomes an error
    """


class ApproximationWarning(CausalBaldWarning):
    """A result is less exact than usual. The message gives the reason and what would help.

    Examples
    --------
    >>> import warnings
    >>> from causalbald import errors
    >>> warnings.simplefilter("ignore", errors.ApproximationWarning)
    """


class OutcomeWarning(CausalBaldWarning):
    """A newly told outcome changes how all outcomes are understood, for example from yes or no to a number.

    Examples
    --------
    >>> import warnings
    >>> from causalbald import errors
    >>> warnings.simplefilter("error", errors.OutcomeWarning)  # refuse such outcomes
    """


class PluginWarning(CausalBaldWarning):
    """A plugin could not be loaded and was left out, or trials belong to another version of a plugin.

    Examples
    --------
    >>> import warnings
    >>> from causalbald import errors
    >>> warnings.simplefilter("error", errors.PluginWarning)  # stop where a plugin cannot be loaded
    """
