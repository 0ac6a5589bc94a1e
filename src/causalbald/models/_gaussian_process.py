"""Gaussian process over both potential outcomes: exact, no validation data, fast for hundreds of labels."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
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

_SCOUT_ITERATIONS = 20
_PROBES = 256
_BINARY_NOISE = 0.9


@register("gp")
class GaussianProcess(CateEstimator):
    """Gaussian process with a part shared between arms and a part for the effect, one lengthscale per covariate.

    Hyper-parameters maximise the exact evidence times weak priors (L-BFGS from three starts), beyond ``max_exact``
    labels the collapsed bound. Needs no validation data. Exact beliefs per unit; beliefs about averages and
    batches use the labelled points and ``sites`` units of the pool. Images are taken as the principal components of
    the pool's images.

    Parameters
    ----------
    sites : int
        Units of the pool, in both arms, through which covariances between units run.
    max_exact : int
        Labels up to which the evidence and beliefs per unit are exact.
    inducing : int
        Labels on which the search for hyper-parameters starts, and which stand for all beyond ``max_exact``.
    max_iter : int
        Limit on L-BFGS iterations from the best of three starts.
    hyper_uncertainty : bool
        Whether the belief allows for hyper-parameters that are not known exactly, up to ``max_exact`` labels.
    components : int
        Principal components that stand for an image.
    random_state : int
        Chooses sites and inducing points.
    """

    accepts_images = True
    prior_class: ClassVar[type[Prior]] = Prior
    _known: tuple[Tensor, Tensor, Tensor, Tensor, Tensor]  # labels' x, arm and y, positions of core labels, x of sites
    _joint: Sites | None

    def __init__(
        self,
        *,
        sites: int = 256,
        max_exact: int = 2000,
        inducing: int = 512,
        max_iter: int = 200,
        hyper_uncertainty: bool = True,
        components: int = 20,
        random_state: int = 0,
    ) -> None:
        self.sites = sites
        self.max_exact = max_exact
        self.inducing = inducing
        self.max_iter = max_iter
        self.hyper_uncertainty = hyper_uncertainty
        self.components = components
        self.random_state = random_state

    def _fit(self, data: LabelSet, pool: AnyArray, validation: LabelSet | None) -> None:
        for name in ("sites", "max_exact", "inducing", "max_iter", "components"):
            check_int(getattr(self, name), name, low=1)
        self.units_ = StandardUnits.of_pool(pool, self.components, self.random_state)
        self.y_mean_, self.y_scale_ = float(data.y.mean()), outcome_scale(data.y)
        x, arm = self._standardise(data.x), torch.as_tensor(data.t)
        y = torch.as_tensor((data.y - self.y_mean_) / self.y_scale_)
        rng = generator(self.random_state, "sites")
        subset = torch.as_tensor(_balanced_subset(data.t, self.inducing, rng))
        self._prior = replace(self.prior_class(x.shape[1]), least_noise=self._least_noise(data))
        self.hyperparameters_ = self._optimise(x, arm, y, subset)
        chosen = rng.choice(len(pool), size=min(self.sites, len(pool)), replace=False)
        exact = len(y) <= self.max_exact
        core = torch.arange(len(y)) if exact else subset
        self._known, self._joint = (x, arm, y, core, self._standardise(pool[np.sort(chosen)])), None
        self.tangent_ = None
        if exact and self.hyper_uncertainty:
            precision = torch.as_tensor(self._prior.tangent_precision)
            self.tangent_ = Tangent.of(self.hyperparameters_, x, arm, y, precision, self._probes(len(y)))
        # Sites beyond the labels do not change the belief about a single unit.
        self.single_ = Single.of(self.hyperparameters_, x, arm, y) if exact else Single.of_sites(self.joint_)

    @property
    def joint_(self) -> Sites:
        """Belief at labels and sites, worked out when it is first asked for: beliefs about single units need none."""
        if self._joint is None:
            with self._threads(self._known[0].numpy()):
                self._joint = Sites.after_labels(self.hyperparameters_, *self._known)
        return self._joint

    def _threads(self, x: AnyArray) -> AbstractContextManager[None]:
        return threads_of_fit(large=len(x) > self.inducing)

    def _probes(self, labels: int) -> Tensor | None:
        """Return random signs (n, s) of expected outer product one, for more labels than the search starts on."""
        if labels <= self.inducing:
            return None
        signs = generator(self.random_state, "probes").integers(0, 2, size=(labels, _PROBES)) * 2.0 - 1.0
        return torch.as_tensor(signs / np.sqrt(_PROBES))

    def _least_noise(self, data: LabelSet) -> tuple[float, float]:
        """Return the least noise variance of each arm, on the standardised scale.

        In an arm with hardly any events the noise would fall to nothing, and the belief would be sure that nothing can
        ever happen there. An outcome of two values scatters by p (1 - p) around an average risk p, of which covariates
        explain a part, in practice a small one: the noise keeps ``_BINARY_NOISE`` of it.
        """
        limits = outcome_range(data.y)
        if limits is None:
            return LEAST_NOISE, LEAST_NOISE
        low, high = limits
        risk, _ = arm_risks(data.y > low, data.t)
        least = _BINARY_NOISE * risk * (1 - risk) * ((high - low) / self.y_scale_) ** 2
        return float(least[0]), float(least[1])

    def _optimise(self, x: Tensor, arm: Tensor, y: Tensor, subset: Tensor) -> Hyperparameters:
        """Find the hyper-parameters on a subset of the labels, then refine them on all."""
        prior = self._prior

        def on_subset(h: Hyperparameters) -> Tensor:
            return _log_evidence(h, x[subset], arm[subset], y[subset])

        def on_all(h: Hyperparameters) -> Tensor:
            if len(y) <= self.max_exact:
                return _log_evidence(h, x, arm, y)
            return _collapsed_bound(h, x, arm, y, subset)

        starts = prior.starts(*(v[subset].numpy() for v in (x, arm, y)))
        scouts = [_search(prior, on_subset, start, _SCOUT_ITERATIONS) for start in starts]
        found = _search(prior, on_subset, min(scouts, key=lambda scout: scout.fun).x, self.max_iter)
        if len(subset) < len(y):
            found = _search(prior, on_all, found.x, self.max_iter)
        self.n_iter_ = int(found.nit)
        return prior.unpack(torch.as_tensor(found.x))

    def _posterior(self, x: AnyArray, *, joint: bool) -> Posterior:
        h, z = self.hyperparameters_, self._standardise(x)
        belief = self.joint_.posterior(h, z, joint=True) if joint else self.single_.posterior(h, z)
        moved = None if self.tangent_ is None else self.tangent_.factor(h, z)
        return self._in_outcomes(belief, moved, joint=joint)

    def _in_outcomes(self, belief: Posterior, moved: Tensor | None, *, joint: bool) -> Posterior:
        """Return a belief in the outcome's unit, with what uncertain hyper-parameters add to it, (N, K, p)."""
        if moved is not None:
            belief = belief.widened(moved.numpy(), joint=joint)
        return belief.rescaled(self.y_scale_, self.y_mean_)

    def cross_belief(self, X: Any) -> CrossBeliefOf | None:
        """Return what ties other units to those in ``X``: exact, where joint beliefs run through sites.

        Not where sites are fewer than labels: then they tell all there is to know, and joint beliefs are cheaper.
        """
        if len(self.joint_.x) < len(self.single_.x):
            return None
        h, others = self.hyperparameters_, self._standardise(self._check_new(X))
        links = ProcessCrossBelief.of(h, self.single_, others)
        tangent = None if self.tangent_ is None else self.tangent_.factor(h, others)  # (J, K, p)

        def at(x: AnyArray) -> CrossBelief:
            units = links.at(self._standardise(x))
            moved = None if self.tangent_ is None else self.tangent_.factor(h, units.x)

            def covariance(rows: slice, own: Treatment, arm: int | None) -> Array:
                t = torch.as_tensor(own, dtype=torch.long)
                found = units.covariance(rows, t, arm)
                if moved is not None and tangent is not None:
                    there = tangent[:, 1] - tangent[:, 0] if arm is None else tangent[:, arm]
                    found.addmm_(moved[rows][torch.arange(len(t)), t], there.T)
                return np.asarray(found.numpy() * self.y_scale_**2)

            return CrossBelief(self._in_outcomes(units.posterior(), moved, joint=False), covariance)

        return at

    def _standardise(self, x: AnyArray) -> Tensor:
        return torch.as_tensor(self.units_(x))


def _search(prior: Prior, log_likelihood: Callable[[Hyperparameters], Tensor], start: Array, iterations: int) -> Any:
    """Maximise likelihood times prior over the free parameters by L-BFGS, in standard deviations of the prior."""
    centre, spread = prior.centre, prior.spread
    shift, scale = torch.as_tensor(centre), torch.as_tensor(spread)

    def loss(values: Array) -> tuple[float, Array]:
        deviation = torch.tensor(values, requires_grad=True)
        value = 0.5 * deviation @ deviation - log_likelihood(prior.unpack(shift + scale * deviation))
        (gradient,) = torch.autograd.grad(value, deviation)
        return value.item(), gradient.numpy()

    options = {"maxiter": iterations, "ftol": 1e-4}
    bounds = (np.array(prior.bounds) - centre[:, None]) / spread[:, None]
    found = minimize(loss, (start - centre) / spread, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    found.x = centre + spread * found.x
    return found


def _log_evidence(h: Hyperparameters, x: Tensor, arm: Tensor, y: Tensor) -> Tensor:
    return log_evidence(h.gram(x, arm) + torch.diag(h.noise[arm]), y - h.means[arm])


def _collapsed_bound(h: Hyperparameters, x: Tensor, arm: Tensor, y: Tensor, inducing: Tensor) -> Tensor:
    u, u_arm = x[inducing], arm[inducing]
    k_uu = h.gram(u, u_arm)
    jitter = 1e-6 * torch.diag(k_uu.detach().diagonal())
    # A part of the labels at a time: the memory of smaller arrays is used again, not asked for anew.
    labels = zip(torch.split(x, CHUNK_UNITS), torch.split(arm, CHUNK_UNITS), strict=True)
    parts = [h.kernel(u, u_arm, z, z_arm) for z, z_arm in labels]
    prior_variance = h.between_arms.diagonal()[arm]
    return collapsed_bound(k_uu + jitter, torch.cat(parts, 1), prior_variance, h.noise[arm], y - h.means[arm])


def _balanced_subset(treatment: Treatment, size: int, rng: np.random.Generator) -> Positions:
    """Return sorted positions of at most ``size`` labels, as even between arms as they allow."""
    order = rng.permutation(len(treatment))
    rank_in_arm = np.empty(len(order), dtype=np.intp)
    for arm in range(ARMS):
        members = order[treatment[order] == arm]
        rank_in_arm[members] = np.arange(len(members))
    return np.sort(order[np.argsort(rank_in_arm[order], kind="stable")][:size])


@register("index")
class IndexProcess(GaussianProcess):
    """Gaussian process on one learned index of the covariates, beside the parts of ``gp`` for what it misses."""

    prior_class = IndexPrior
