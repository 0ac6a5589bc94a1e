"""One tree of exceptions and warnings. A message names what is wrong and what to do about it."""

from __future__ import annotations


class CausalBaldError(Exception):
    """Base of everything this package raises on purpose."""


class InputError(CausalBaldError, ValueError):
    """An argument cannot be used; the message says which, why and the remedy."""


class UnknownNameError(InputError):
    """No acquisition function, model or data set has this name; the message lists those that exist."""


class TrainingError(CausalBaldError, RuntimeError):
    """A model could not be trained on these labels; the message says what to change."""


class StorageError(CausalBaldError, RuntimeError):
    """A campaign could not be read or written; the message says where and what to do."""


class CampaignExistsError(StorageError):
    """There is a campaign already where one was to be created."""


class CausalBaldWarning(UserWarning):
    """Base of this package's warnings."""


class ApproximationWarning(CausalBaldWarning):
    """A result is less exact than usual; the message says why and what would help."""


class OutcomeWarning(CausalBaldWarning):
    """An outcome that is told changes how all of them are understood."""


class PluginWarning(CausalBaldWarning):
    """A plugin could not be loaded and was left out, or trials are of another version of a plugin."""
