"""Gaussian process over both potential outcomes: exact, no validation data, fast for hundreds of labels."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from causalbald._random import generator
from causalbald._scaling import outcome_range, outcome_scale
from causalbald._threads import CHUNK_UNITS, threads_of_fit
from causalbald._typing import AnyArray, Array, Positions, Treatment
from causalbald._validation import check_int
from causalbald.models._arm_means import arm_risks
from causalbald.models._base import CateEstimator, CrossBelief, CrossBeliefOf, LabelSet
from causalbald.models._cross_belief import ProcessCrossBelief
from causalbald.models._effect_kernel import ARMS, LEAST_NOISE, Hyperparameters, IndexPrior, Prior
from causalbald.models._evidence import collapsed_bound, log_evidence
from causalbald.models._registry import register
from causalbald.models._sites import Single, Sites
from causalbald.models._standard_units import StandardUnits
from causalbald.models._tangent import Tangent
from causalbald.posterior import Posterior

_SCOUT_ITERATIONS = 20  # of L-BFGS, from each start
_PROBES = 256  # random vectors by which the information of many labels is estimated
_BINARY_NOISE_SHARE = 0.9  # least noise of an outcome with two values, as a share of its variance in the arm


@register("gp")
@dataclass(kw_only=True, eq=False, repr=False)
class GaussianProcess(CateEstimator):
    """Gaussian process with a part shared between arms and a part for the effect, one lengthscale per covariate.

    Hyper-parameters maximise the exact evidence times weak priors (L-BFGS from three starts), and beyond ``max_exact``
    labels the collapsed bound. No validation labels are needed. Beliefs about single units are exact. Beliefs about
    averages and batches use the labelled points and ``sites`` units of the pool. Images are replaced by the principal
    components of the pool's images.

    Parameters
    ----------
    sites : int
        Number of units of the pool, in both arms, through which covariances between units run.
    max_exact : int
        Number of labels up to which the evidence and beliefs about single units are exact.
    inducing : int
        Number of labels on which the search for hyper-parameters starts. Beyond ``max_exact`` labels, they represent
        all labels.
    max_iter : int
        Limit on L-BFGS iterations of each search: one from the best of three starts, and another one on all labels if
        there are more than ``inducing``.
    hyper_uncertainty : bool
        Whether the belief includes the uncertainty of the hyper-parameters, up to ``max_exact`` labels.
    components : int
        Number of principal components that represent an image.
    random_state : int
        Chooses sites, inducing points and the images from which components are learned.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.models import GaussianProcess
    >>> x, t = np.linspace(-2, 2, 20)[:, None], np.arange(20) % 2
    >>> y = x[:, 0] + 3 * t
    >>> model = GaussianProcess(max_iter=5).fit(y, t, X=x)
    >>> bool(abs(model.ate(x) - 3) < 0.5)
    True
    """

    # A dataclass: scikit-learn's get_params, set_params and clone need only the signature that it generates.
    sites: int = 256
    max_exact: int = 2000
    inducing: int = 512
    max_iter: int = 200
    hyper_uncertainty: bool = True
    components: int = 20
    random_state: int = 0

    accepts_images = True
    prior_class: ClassVar[type[Prior]] = Prior

    def _fit(self, labels: LabelSet, pool: AnyArray, validation: LabelSet | None) -> None:
        """Choose hyper-parameters, then compute what beliefs about single units need. ``validation`` is not used.

        Raises InputError if an option is no integer of at least 1.
        """
        for name in ("sites", "max_exact", "inducing", "max_iter", "components"):
            check_int(getattr(self, name), name, low=1)
        self.units_ = StandardUnits.of_pool(pool, self.components, self.random_state)
        self.y_mean_, self.y_scale_ = float(labels.y.mean()), outcome_scale(labels.y)
        x, arm = self._standardise(labels.x), torch.as_tensor(labels.t)
        y = torch.as_tensor((labels.y - self.y_mean_) / self.y_scale_)
        rng = generator(self.random_state, "sites")
        subset = torch.as_tensor(_balanced_subset(labels.t, self.inducing, rng))
        self._prior = replace(self.prior_class(x.shape[1]), least_noise=self._least_noise(labels))
        self.hyperparameters_ = self._optimise(x, arm, y, subset)
        site_rows = np.sort(rng.choice(len(pool), size=min(self.sites, len(pool)), replace=False))
        is_exact = len(y) <= self.max_exact
        core = torch.arange(len(y)) if is_exact else subset
        # Arguments of `Sites.after_labels` for `joint_`: labels, positions of labels that are sites, other sites.
        self._site_inputs = x, arm, y, core, self._standardise(pool[site_rows])
        self._joint: Sites | None = None
        self.tangent_ = None
        if is_exact and self.hyper_uncertainty:
            precision = torch.as_tensor(self._prior.tangent_precision)
            self.tangent_ = Tangent.of(self.hyperparameters_, x, arm, y, precision, self._probes(len(y)))
        # Sites beyond the labels do not change the belief about a single unit.
        self.single_ = Single.of(self.hyperparameters_, x, arm, y) if is_exact else Single.of_sites(self.joint_)

    @property
    def joint_(self) -> Sites:
        """Belief at labels and sites, computed when it is first needed, then kept.

        Up to ``max_exact`` labels, beliefs about single units do not need it.
        """
        if self._joint is None:
            with self._threads(self._site_inputs[0].numpy()):
                self._joint = Sites.after_labels(self.hyperparameters_, *self._site_inputs)
        return self._joint

    def _threads(self, x: AnyArray) -> AbstractContextManager[None]:
        """Return a context in which small fits use one thread, and large fits as many as the user permits."""
        return threads_of_fit(large=len(x) > self.inducing)

    def _probes(self, labels: int) -> Tensor | None:
        """Return random signs Z (labels, s), scaled so that E Z Zᵀ = I, for ``estimated_information``.

        None for at most ``inducing`` labels: their exact information is cheap.
        """
        if labels <= self.inducing:
            return None
        signs = generator(self.random_state, "probes").integers(0, 2, size=(labels, _PROBES)) * 2.0 - 1.0
        return torch.as_tensor(signs / np.sqrt(_PROBES))

    def _least_noise(self, labels: LabelSet) -> tuple[float, float]:
        """Return the least noise variance of each arm, on the standardised scale.

        It is ``LEAST_NOISE``, or more for an outcome with two values. With few events in an arm, its noise would
        fall to 0, and the belief would be sure that no event can ever happen. The outcome has variance p (1 - p) around
        an average risk p. Covariates explain a part of this variance, in practice a small one: the noise keeps the
        share ``_BINARY_NOISE_SHARE``.
        """
        limits = outcome_range(labels.y)
        if limits is None:
            return LEAST_NOISE, LEAST_NOISE
        low, high = limits
        risk, _ = arm_risks(labels.y > low, labels.t)
        least = _BINARY_NOISE_SHARE * risk * (1 - risk) * ((high - low) / self.y_scale_) ** 2
        return float(least[0]), float(least[1])

    def _optimise(self, x: Tensor, arm: Tensor, y: Tensor, subset: Tensor) -> Hyperparameters:
        """Return the hyper-parameters that are best for a subset of the labels, refined on all labels.

        Labels are standardised, and ``subset`` holds positions of labels. Sets ``n_iter_``, the number of iterations of
        the last search.
        """
        prior = self._prior

        def on_subset(h: Hyperparameters) -> Tensor:
            return _log_evidence(h, x[subset], arm[subset], y[subset])

        def on_all(h: Hyperparameters) -> Tensor:
            """Return the log evidence of all labels; beyond ``max_exact`` labels, its lower bound."""
            if len(y) <= self.max_exact:
                return _log_evidence(h, x, arm, y)
            return _collapsed_bound(h, x, arm, y, subset)

        starts = prior.starts(*(v[subset].numpy() for v in (x, arm, y)))
        scouts = [_search(prior, on_subset, start, _SCOUT_ITERATIONS) for start in starts]
        optimum = _search(prior, on_subset, min(scouts, key=lambda scout: scout.fun).x, self.max_iter)
        if len(subset) < len(y):
            optimum = _search(prior, on_all, optimum.x, self.max_iter)
        self.n_iter_ = int(optimum.nit)
        return prior.unpack(torch.as_tensor(optimum.x))

    def _posterior(self, x: AnyArray, *, joint: bool) -> Posterior:
        """Return the belief about checked units, in the unit of the outcome: through the sites if ``joint``."""
        h, z = self.hyperparameters_, self._standardise(x)
        belief = self.joint_.posterior(h, z, joint=True) if joint else self.single_.posterior(h, z)
        tangent_factor = None if self.tangent_ is None else self.tangent_.factor(h, z)
        return self._in_outcomes(belief, tangent_factor, joint=joint)

    def _in_outcomes(self, belief: Posterior, tangent_factor: Tensor | None, *, joint: bool) -> Posterior:
        """Return a belief in the outcome's unit, given one in standard units.

        ``tangent_factor`` (N, K, p) is a factor of the covariance to add, if any; between units only if ``joint``.
        """
        if tangent_factor is not None:
            belief = belief.widened(tangent_factor.numpy(), joint=joint)
        return belief.rescaled(self.y_scale_, self.y_mean_)

    def cross_belief(self, X: Any) -> CrossBeliefOf | None:
        """Return a function from new units to their exact covariances with the units in ``X``.

        Parameters
        ----------
        X : (J, D) array or DataFrame, or images (J, C, H, W)
            Covariates of the units with which covariances are needed.

        Returns
        -------
        callable or None
            Takes checked covariates (N, D) of new units and returns their :class:`CrossBelief`. None if the belief
            has fewer sites than labels: beliefs then rest on the sites alone, and joint beliefs are cheaper.
        """
        if len(self.joint_.x) < len(self.single_.x):
            return None
        h, other_x = self.hyperparameters_, self._standardise(self._check_new(X))
        process = ProcessCrossBelief.of(h, self.single_, other_x)
        other_factor = None if self.tangent_ is None else self.tangent_.factor(h, other_x)  # (J, K, p)

        def at(x: AnyArray) -> CrossBelief:
            """Return the cross-belief of units x (N, D)."""
            units = process.at(self._standardise(x))
            unit_factor = None if self.tangent_ is None else self.tangent_.factor(h, units.x)  # (N, K, p)

            def covariance(rows: slice, treatment: Treatment, arm: int | None) -> Array:
                """Return covariances (n, J) as :class:`CrossBelief` describes."""
                t = torch.as_tensor(treatment, dtype=torch.long)
                standardised = units.covariance(rows, t, arm)
                if unit_factor is not None and other_factor is not None:
                    towards = other_factor[:, 1] - other_factor[:, 0] if arm is None else other_factor[:, arm]
                    standardised.addmm_(unit_factor[rows][torch.arange(len(t)), t], towards.T)
                return np.asarray(standardised.numpy() * self.y_scale_**2)

            return CrossBelief(self._in_outcomes(units.posterior(), unit_factor, joint=False), covariance)

        return at

    def _standardise(self, x: AnyArray) -> Tensor:
        """Return covariates of N units in the standard units of the pool, (N, P). Images become P components."""
        return torch.as_tensor(self.units_(x))


def _search(prior: Prior, log_likelihood: Callable[[Hyperparameters], Tensor], start: Array, iterations: int) -> Any:
    """Return scipy's result of maximising likelihood times prior by L-BFGS-B, within the prior's bounds.

    ``x`` of the result holds the free parameters, as ``start`` does; ``fun`` is -log(likelihood * prior) up to a
    constant. There are at most ``iterations`` iterations.
    """
    # The search runs over deviations d from the prior's centre in its standard deviations, so that
    # -log prior = ½ |d|², up to a constant.
    centre, spread = prior.centre, prior.spread
    shift, scale = torch.as_tensor(centre), torch.as_tensor(spread)

    def loss(values: Array) -> tuple[float, Array]:
        """Return -log(likelihood * prior) up to a constant, and its gradient by ``values``, the deviations d."""
        deviation = torch.tensor(values, requires_grad=True)
        value = 0.5 * deviation @ deviation - log_likelihood(prior.unpack(shift + scale * deviation))
        (gradient,) = torch.autograd.grad(value, deviation)
        return value.item(), gradient.numpy()

    options = {"maxiter": iterations, "ftol": 1e-4}
    bounds = (np.array(prior.bounds) - centre[:, None]) / spread[:, None]
    optimum = minimize(loss, (start - centre) / spread, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    optimum.x = centre + spread * optimum.x
    return optimum


def _log_evidence(h: Hyperparameters, x: Tensor, arm: Tensor, y: Tensor) -> Tensor:
    """Return the exact log evidence for the hyper-parameters ``h`` from standardised labels."""
    return log_evidence(h.gram(x, arm) + torch.diag(h.noise[arm]), y - h.means[arm])


def _collapsed_bound(h: Hyperparameters, x: Tensor, arm: Tensor, y: Tensor, inducing: Tensor) -> Tensor:
    """Return a lower bound on the log evidence of standardised labels.

    ``inducing`` are positions of the labels that represent all labels.
    """
    u, u_arm = x[inducing], arm[inducing]
    k_uu = h.gram(u, u_arm)
    jitter = 1e-6 * torch.diag(k_uu.detach().diagonal())
    # A chunk of the labels at a time: the memory of smaller arrays is used again instead of being requested anew.
    chunks = zip(torch.split(x, CHUNK_UNITS), torch.split(arm, CHUNK_UNITS), strict=True)
    parts = [h.kernel(u, u_arm, z, z_arm) for z, z_arm in chunks]
    prior_variance = h.between_arms.diagonal()[arm]
    return collapsed_bound(k_uu + jitter, torch.cat(parts, 1), prior_variance, h.noise[arm], y - h.means[arm])


def _balanced_subset(treatment: Treatment, size: int, rng: np.random.Generator) -> Positions:
    """Return sorted positions of ``size`` random labels, split between arms as evenly as possible.

    All positions are returned if there are no more than ``size`` labels.
    """
    order = rng.permutation(len(treatment))
    rank_in_arm = np.empty(len(order), dtype=np.intp)
    for arm in range(ARMS):
        members = order[treatment[order] == arm]
        rank_in_arm[members] = np.arange(len(members))
    return np.sort(order[np.argsort(rank_in_arm[order], kind="stable")][:size])


@register("index")
class IndexProcess(GaussianProcess):
    """Gaussian process on one learned index of the covariates, plus the parts of ``gp`` for what the index misses.

    Parameters
    ----------
    sites, max_exact, inducing, max_iter, hyper_uncertainty, components, random_state
        As for :class:`GaussianProcess`.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.models import IndexProcess
    >>> x, t = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    >>> model = IndexProcess(max_iter=3).fit(x @ [1.0, 2.0, 0.0] + t, t, X=x)
    >>> model.hyperparameters_.index.shape
    torch.Size([3])
    """

    prior_class = IndexPrior
