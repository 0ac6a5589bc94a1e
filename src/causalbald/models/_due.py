"""Deep-kernel Gaussian process of both potential outcomes (DUE), trained without free labels where none are given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor, nn

from causalbald._random import generator
from causalbald._typing import AnyArray, Array, Treatment
from causalbald._validation import check_choice, check_int, check_number
from causalbald.errors import InputError
from causalbald.models._base import CrossBelief, CrossBeliefOf, LabelSet
from causalbald.models._cross_belief import ProcessCrossBelief, between_members, of_arm
from causalbald.models._deep import DeepEstimator, Outcome, check_schedule
from causalbald.models._nn.deep_kernel import DeepKernel, MemberKernel
from causalbald.models._nn.kernels import KERNELS
from causalbald.models._nn.member_labels import LabelTensors, MemberLabels, MemberRows
from causalbald.models._nn.objectives import BatchEvidence, VariationalBound
from causalbald.models._nn.random_streams import RandomStreams
from causalbald.models._nn.training import Schedule, adam, train
from causalbald.models._registry import register
from causalbald.models._sites import Single, SiteBelief, Sites
from causalbald.posterior import Link, Posterior

Inference = Literal["auto", "collapsed", "minibatch"]
# On tables the evidence bears a larger rate than the paper's bound: it has no belief to learn beside the kernel.
_COLLAPSED_RATE = 10.0
_GP_RATE = 2.0
# Features of images start so close together that the first full steps of the optimiser can throw them apart for good.
_IMAGE_WARM_UP = 30
# From this share of the variance on, noise hides rounding errors of single precision: variances that were compared,
# with up to 1,000 labels, were off by half a per cent or less.
_NOISY = 0.01


@register("due")
class DeepKernelGP(DeepEstimator):
    """Gaussian process on features of a residual network whose layers' gain is limited; takes tables and images.

    Training stops where held-out labels are expected to be most likely. With ``validation`` those are given. Without,
    each of ``folds`` networks holds out its share of the bought labels, and ``members`` networks are then trained on
    all of them for as long as the folds needed on average; the belief is the mixture of the members'.

    Parameters
    ----------
    inference : "auto", "collapsed" or "minibatch"
        ``collapsed`` integrates the process out and trains the kernel alone, on the evidence of random batches;
        ``minibatch`` is the paper's variational bound, also for binary outcomes. ``auto`` takes the first where it can.
    kernel : "rbf", "matern12", "matern32" or "matern52"
    members : int, optional
        Networks whose beliefs are mixed; by default 4, but 1 if ``validation`` is given, and for images.
    folds : int, optional
        Networks that find out, each on its share of the bought labels, how long to train; by default 4. With 1, the
        default for images, each member stops on a quarter of the labels and is not trained again.
    inducing : int
        Inducing points of the bound.
    sites : int
        Units of the pool, in both arms, through which covariances between units run.
    max_exact : int
        Labels up to which beliefs per unit are exact; beyond, so many of them stand for all (collapsed bound).
    hidden, depth : int
        Units of a layer (images: eight times the channels of the first stage) and layers (stages) of the encoder.
    negative_slope : float
        Of the leaky ReLU; 0 is ReLU, a negative number stands for ELU.
    dropout : float
    spectral_norm : float, optional
        Largest gain of a layer; None for no limit.
    batch_size : int, optional
        Labels in a step; None takes all.
    learning_rate : float
        Of the encoder with the paper's bound; the process has twice, the evidence of tables ten times that.
    epoch_steps, patience : int, optional
        Steps between looks at held-out labels, and looks without a better one after which a member stops; by default
        10 and 4 for the evidence, 100 and 5 for the paper's bound.
    max_epochs : int
        Limit on the number of looks.
    max_validation : int
        Held-out labels looked at.
    encoder : torch.nn.Module, optional
        Your own, from (n, ...) to features (n, F); each member trains a copy that starts from the weights given.
    outcome : "auto", "continuous" or "binary"
        ``auto`` takes outcomes that are all 0 or 1 as binary.
    device : str
        ``auto`` takes a GPU if there is one.
    random_state : int
    """

    network_: DeepKernel
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "synthetic": {
            "kernel": "rbf",
            "inducing": 20,
            "hidden": 100,
            "dropout": 0.2,
            "depth": 3,
            "batch_size": 200,
            "spectral_norm": 0.95,
            "learning_rate": 0.001,
            "negative_slope": 0.0,
        },
        "ihdp": {
            "kernel": "matern32",
            "inducing": 100,
            "hidden": 200,
            "dropout": 0.1,
            "depth": 3,
            "batch_size": 100,
            "spectral_norm": 0.95,
            "learning_rate": 0.001,
            "negative_slope": -1.0,
        },
        "cmnist": {
            "kernel": "rbf",
            "inducing": 100,
            "hidden": 200,
            "dropout": 0.05,
            "depth": 2,
            "batch_size": 64,
            "spectral_norm": 3.0,
            "learning_rate": 0.001,
            "negative_slope": -1.0,
            "epoch_steps": 25,
            "max_epochs": 20,
        },
    }

    def __init__(
        self,
        *,
        inference: Inference = "auto",
        kernel: str = "matern32",
        members: int | None = None,
        folds: int | None = None,
        inducing: int = 100,
        sites: int = 256,
        max_exact: int = 1000,
        hidden: int = 200,
        depth: int = 3,
        negative_slope: float = -1.0,
        dropout: float = 0.1,
        spectral_norm: float | None = 0.95,
        batch_size: int | None = 64,
        learning_rate: float = 1e-3,
        epoch_steps: int | None = None,
        patience: int | None = None,
        max_epochs: int = 500,
        max_validation: int = 500,
        encoder: nn.Module | None = None,
        outcome: Outcome = "auto",
        device: str = "auto",
        random_state: int = 0,
    ) -> None:
        self.inference = inference
        self.kernel = kernel
        self.members = members
        self.folds = folds
        self.inducing = inducing
        self.sites = sites
        self.max_exact = max_exact
        self.hidden = hidden
        self.depth = depth
        self.negative_slope = negative_slope
        self.dropout = dropout
        self.spectral_norm = spectral_norm
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.epoch_steps = epoch_steps
        self.patience = patience
        self.max_epochs = max_epochs
        self.max_validation = max_validation
        self.encoder = encoder
        self.outcome = outcome
        self.device = device
        self.random_state = random_state

    def _fit(self, data: LabelSet, pool: AnyArray, validation: LabelSet | None) -> None:
        for name in ("sites", "max_exact", "inducing"):
            check_int(getattr(self, name), name, low=1)
        check_choice(self.kernel, "kernel", tuple(KERNELS))
        labels, free = self._prepare(data, pool, validation)
        self.collapsed_ = self._is_collapsed()
        objective = self._stop_early(labels, free)
        rng = generator(self.random_state, "sites")
        chosen = np.sort(rng.choice(len(pool), size=min(self.sites, len(pool)), replace=False))
        self.network_ = objective.network
        self.state_ = {
            **(objective.belief() if isinstance(objective, VariationalBound) else {}),
            "x": labels.x.cpu(),
            "t": labels.t.cpu(),
            "y": labels.y.cpu(),
            "core": torch.as_tensor(np.sort(rng.permutation(len(labels))[: self.max_exact])),
            "pool": self.scaling_.covariates(pool[chosen]),
        }
        self._forget()

    def _stop_early(self, labels: LabelTensors, free: LabelTensors | None) -> BatchEvidence | VariationalBound:
        """Train members until free labels say stop, or for as long as folds of the bought ones say."""
        default_folds, default_members = (1, 1) if self._of_images else (4, 4 if free is None else 1)
        folds = default_folds if self.folds is None else check_int(self.folds, "folds", low=1)
        members = default_members if self.members is None else check_int(self.members, "members", low=1)
        if free is not None or folds == 1:
            objective, self.steps_ = self._train("member", self._study(labels, free, members), self._schedule)
            return objective
        _, stops = self._train("fold", self._study(labels, None, folds), self._schedule)
        steps = max(1, round(float(np.mean(stops))))
        as_long = replace(self._schedule, max_steps=steps, every=steps)
        objective, _ = self._train("member", MemberLabels.of_all(labels, members), as_long)
        self.steps_ = [steps] * members
        return objective

    @property
    def _schedule(self) -> Schedule:
        every, patience = (10, 4) if self.collapsed_ else (100, 5)
        every = every if self.epoch_steps is None else self.epoch_steps
        schedule = check_schedule(every, patience if self.patience is None else self.patience, self.max_epochs)
        return replace(schedule, warm_up=_IMAGE_WARM_UP) if self._of_images else schedule

    def _is_collapsed(self) -> bool:
        check_choice(self.inference, "inference", ("auto", "collapsed", "minibatch"))
        if self.binary_ and self.inference == "collapsed":
            raise InputError(
                "binary outcomes need inference='minibatch' (or 'auto'): their evidence has no closed form."
            )
        return not self.binary_ and self.inference != "minibatch"

    def _train(
        self, purpose: str, study: MemberLabels, schedule: Schedule
    ) -> tuple[BatchEvidence | VariationalBound, list[int]]:
        """Train a network per member, stopped on what the study holds out, if anything."""
        rate = check_number(self.learning_rate, "learning_rate", above=0.0)
        network = self._build(self._streams(purpose, len(study.train.lengths)))
        along = (study, network.streams)
        few = study.train.at_most(self.max_exact, generator(self.random_state, purpose, "rows"))
        start = study.train.columns(few)
        network.start_at(study.labels.take(start.index).x)
        decay = self._decay(len(study.labels))
        size = None if self.batch_size is None else check_int(self.batch_size, "batch_size", low=1)
        if self.collapsed_:
            evidence = BatchEvidence(network, study, size, few, self._chunk)
            rate *= 1.0 if self._of_images else _COLLAPSED_RATE
            optimiser = adam(network, network.encoder, rate, decay=decay, gain=_GP_RATE)
            held_out = study.held_out(evidence.predictive, self._chunk)
            return evidence, train(network, optimiser, evidence.loss, schedule, held_out, along)
        points = self._points(network, study.labels, start)
        bound = VariationalBound(network, study, size or len(study.labels), points, binary=self.binary_)
        optimiser = adam(bound, network.encoder, rate, decay=decay, gain=_GP_RATE)
        held_out = study.held_out(bound.predictive, self._chunk)
        return bound, train(bound, optimiser, bound.loss, schedule, held_out, along)

    def _points(self, network: DeepKernel, labels: LabelTensors, rows: MemberRows) -> Tensor:
        """Return where inducing points start: cluster centres of the features, with any treatment from 0 to 1."""
        with torch.no_grad():
            features = network.encoder(labels.x[rows.index]).cpu().numpy()
        different = [
            np.unique(f[keep], axis=0) for f, keep in zip(features, rows.counts.cpu().numpy() > 0, strict=True)
        ]
        count = min(self.inducing, *(len(f) for f in different))
        clusters = [KMeans(count, n_init=1, random_state=self.random_state).fit(f) for f in different]
        points = torch.as_tensor(np.stack([c.cluster_centers_ for c in clusters]), dtype=torch.float32)
        treatment = network.streams.uniform((count, 1)) * network.log_treatment.detach().exp().cpu()
        return torch.cat([points, treatment], -1).to(labels.y.device)

    def _forget(self) -> None:
        """Drop what was worked out of another fit."""
        self._sites: list[Sites] | None = None
        self._single: list[Single] | None = None

    def _at_sites(self) -> list[Sites]:
        """Return each member's belief at its sites, worked out when it is first asked for."""
        if self._sites is None:
            self._sites = self._exact_sites() if self.collapsed_ else self._learned_sites()
        return self._sites

    def _of_single_units(self) -> list[Single]:
        """Return each member's belief about single units, for which labels alone are sites enough."""
        s = self.state_
        if self._single is None and len(s["core"]) < len(s["y"]):
            self._single = [Single.of_sites(sites) for sites in self._at_sites()]
        elif self._single is None:
            known = self.network_.encode(s["x"], self._chunk)
            members = zip(self.network_.member_kernels(), known, strict=True)
            self._single = [_of_single_units(k, x, s["t"], s["y"]) for k, x in members]
        return self._single

    def _exact_sites(self) -> list[Sites]:
        s, kernels = self.state_, self.network_.member_kernels()
        known, extra = (self.network_.encode(s[name], self._chunk).double() for name in ("x", "pool"))
        members = zip(kernels, known, extra, strict=True)
        return [Sites.after_labels(k, x, s["t"], s["y"].double(), s["core"], u) for k, x, u in members]

    def _learned_sites(self) -> list[Sites]:
        s, kernels = self.state_, self.network_.member_kernels()
        members = zip(kernels, s["points"], s["prior_root"], s["mean"], s["root"], strict=True)
        return [
            Sites(points[:, :-1], points[:, -1] / kernel.treatment, SiteBelief(prior, mean, root))
            for kernel, points, prior, mean, root in members
        ]

    def _posterior(self, x: AnyArray, *, joint: bool) -> Posterior:
        units = self._encoded(x)
        link: Link = "probit" if self.binary_ else "identity"
        members = list(zip(self.network_.member_kernels(), units, strict=True))
        if self.collapsed_ and not joint:
            beliefs = (b.posterior(k, z) for b, (k, z) in zip(self._of_single_units(), members, strict=True))
        else:
            sites = zip(self._at_sites(), members, strict=True)
            beliefs = (b.posterior(k, z.double(), joint=joint, link=link) for b, (k, z) in sites)
        return self._mixed(beliefs)

    def _mixed(self, beliefs: Iterable[Posterior]) -> Posterior:
        """Return the mixture of members' beliefs in the outcome's unit."""
        # Each by itself, since the factor of the mixture can be large.
        return Posterior.mixture([b.rescaled(self.scaling_.y_scale, self.scaling_.y_mean) for b in beliefs])

    def cross_belief(self, X: Any) -> CrossBeliefOf | None:
        """Return what ties other units to those in ``X``: exact, where joint beliefs run through sites.

        Binary outcomes, and the paper's bound, have them through sites alone.
        """
        if not self.collapsed_:
            return None
        others = self._encoded(self._check_new(X))
        kernels, singles = self.network_.member_kernels(), self._of_single_units()
        members = [ProcessCrossBelief.of(k, s, z) for k, s, z in zip(kernels, singles, others, strict=True)]
        weights, there = np.full(len(members), 1 / len(members)), np.stack([m.mean.numpy() for m in members])

        def at(x: AnyArray) -> CrossBelief:
            units = [m.at(z) for m, z in zip(members, self._encoded(x), strict=True)]
            beliefs = [unit.posterior() for unit in units]
            here = np.stack([belief.mean.T for belief in beliefs])

            def covariance(rows: slice, own: Treatment, arm: int | None) -> Array:
                t = torch.as_tensor(own, dtype=torch.long)
                within = torch.stack([unit.covariance(rows, t, arm) for unit in units]).mean(0).numpy()
                means = here[..., rows][:, own, np.arange(len(own))]
                total = within + between_members(means, of_arm(there, arm), weights)
                return np.asarray(total * self.scaling_.y_scale**2)

            return CrossBelief(self._mixed(beliefs), covariance)

        return at

    def _encoded(self, x: AnyArray) -> Tensor:
        """Return features (M, N, F) of units for each member."""
        return self.network_.encode(self.scaling_.covariates(x), self._chunk)

    def _tensors(self) -> dict[str, Tensor]:
        return self.state_

    def _restore(self, tensors: dict[str, Tensor]) -> None:
        self.state_ = tensors
        self.collapsed_ = "points" not in tensors
        self._forget()

    def _build(self, streams: RandomStreams) -> DeepKernel:
        return DeepKernel(self.shape_, self._architecture, streams, self.kernel, self.encoder).to(self._device())


def _of_single_units(kernel: MemberKernel, x: Tensor, t: Tensor, y: Tensor) -> Single:
    """Return what labels say of single units, given features x (n, F), arms and outcomes in single precision."""
    exact = Single.of(kernel, x.double(), t, y.double())
    noisy = bool(kernel.noise.min() > _NOISY * kernel.variance)
    return exact.rounded() if noisy else exact
