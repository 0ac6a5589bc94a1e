"""A posterior that needs no model."""

from __future__ import annotations

import numpy as np

from causalbald.posterior import Link, Posterior


def fake_posterior(
    units: int = 12,
    *,
    rank: int = 6,
    residual: bool = True,
    noise: float = 0.5,
    link: Link = "identity",
    seed: int = 0,
) -> Posterior:
    """Return a random belief about two arms that needs no model. The same arguments give the same belief.

    Parameters
    ----------
    units : int
        How many units, N.
    rank : int
        Columns of the factor, R.
    residual : bool
        Whether each unit has variance that it shares with no other unit.
    noise : float
        Outcome noise variance; not used with the probit link.
    link : "identity" or "probit"
        As for :class:`causalbald.Posterior`.
    seed : int
        Seed of the random numbers: another seed gives another belief.

    Returns
    -------
    Posterior

    Examples
    --------
    >>> from causalbald.testing import fake_posterior
    >>> fake_posterior(3, rank=2)
    Posterior(units=3, arms=2, rank=2, link='identity')
    """
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(units, 2, 2)) * (0.4 if residual else 0.0)
    return Posterior(
        mean=rng.normal(size=(units, 2)),
        factor=rng.normal(size=(units, 2, rank)) / np.sqrt(rank),
        residual=roots @ roots.transpose(0, 2, 1),
        noise=np.array(noise if link == "identity" else 1.0),
        link=link,
    )
