"""Deep-kernel Gaussian process of both potential outcomes (DUE), which also stops without validation labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from causalbald._random import generator
from causalbald._typing import AnyArray, Array, Treatment
from causalbald._validation import check_choice, check_int
from causalbald.errors import InputError
from causalbald.models._base import CrossBelief, CrossBeliefOf, LabelSet
from causalbald.models._cross_belief import ProcessCrossBelief, between_members, of_arm
from causalbald.models._deep import DeepEstimator
from causalbald.models._member_beliefs import MemberBeliefs
from causalbald.models._network_parameters import make_schedule
from causalbald.models._nn.deep_kernel import DeepKernel
from causalbald.models._nn.kernels import KERNELS
from causalbald.models._nn.member_labels import LabelTensors, MemberLabels, MemberRows
from causalbald.models._nn.objectives import BatchEvidence, VariationalBound
from causalbald.models._nn.random_streams import RandomStreams
from causalbald.models._nn.training import Schedule, adam, train
from causalbald.models._presets import PRESETS
from causalbald.models._registry import register
from causalbald.posterior import Link, Posterior

Inference = Literal["auto", "collapsed", "minibatch"]
# Factor on the learning rate for tables with the evidence. It can take a larger rate than the paper's bound, which has
# to learn a belief besides the kernel.
TABLE_RATE_FACTOR = 10.0
# Factor on the learning rate for the parameters of the process.
PROCESS_RATE_FACTOR = 2.0
# Steps over which the rate rises for images. Their features start close together, and the first full steps of the
# optimiser could separate them for good.
IMAGE_WARM_UP_STEPS = 30


@register("due")
@dataclass(kw_only=True, eq=False, repr=False)
class DeepKernelGP(DeepEstimator[DeepKernel]):
    """Gaussian process on features of a residual network whose layers' gain is limited; takes tables and images.

    Training stops where held-out labels are expected to be most likely. ``validation`` labels are the held-out labels,
    if there are any. Without them, each of ``folds`` networks holds out its share of the labels, and then ``members``
    networks are trained on all labels for as many steps as the folds needed on average. The belief is the mixture of
    the members' beliefs.

    Parameters
    ----------
    inference : "auto", "collapsed" or "minibatch"
        ``collapsed`` integrates the process out and trains only the kernel, on the evidence of random batches.
        ``minibatch`` is the paper's variational bound, also for binary outcomes. ``auto`` is ``collapsed`` unless
        outcomes are binary.
    kernel : "rbf", "matern12", "matern32" or "matern52"
        Kernel on the features.
    members : int, optional
        Networks whose beliefs are mixed. By default 4, but 1 with ``validation`` and for images.
    folds : int, optional
        Networks that measure how long to train, each on its share of the labels. By default 4. With 1, the default
        for images, each member stops on its own share of the labels, at most a quarter, and is not trained again.
    inducing : int
        Number of inducing points of the paper's bound; fewer if fewer training labels differ in their features.
    sites : int
        Number of random units of the pool. Joint beliefs know the covariances between units as far as these units, in
        both arms, and the labels explain them. The paper's bound has its inducing points instead.
    max_exact : int
        Largest number of labels for which beliefs about single units are exact. With more labels, a random subset of
        this size stands for all labels (collapsed bound).
    hidden : int
        Units of a layer; for images, eight times the channels of the first stage.
    depth : int
        Layers of the encoder; for images, stages.
    negative_slope : float
        Slope of the leaky ReLU for negative inputs; 0 means ReLU, a negative number ELU.
    dropout : float
        Share of units that dropout removes while training.
    spectral_norm : float, optional
        Largest gain of a layer; None means no limit.
    batch_size : int, optional
        Labels in a step; None means all.
    learning_rate : float
        Learning rate of the encoder with the paper's bound, and for images. The rate for tables with the evidence is
        ten times larger. The parameters of the process learn twice as fast.
    epoch_steps, patience : int, optional
        Steps between two scores of the held-out labels, and the number of scores no better than its best after which a
        member stops. By default 10 and 4 for the evidence, 100 and 5 for the paper's bound.
    max_epochs : int
        Largest number of scores.
    max_validation : int
        Largest number of held-out labels that are scored.
    encoder : torch.nn.Module, optional
        Your own encoder, from (n, ...) to features (n, F). Each member trains a copy of it, weights included.
    outcome : "auto", "continuous" or "binary"
        With ``auto``, outcomes that are all 0 or 1 are binary.
    device : str
        ``auto`` takes a GPU if there is one.
    random_state : int
        Seed of the weights, batches, folds and sites.

    Attributes
    ----------
    steps_ : list of int
        Number of steps for which each member was trained.
    collapsed_ : bool
        Whether the process was integrated out, rather than trained on the paper's bound.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.models import DeepKernelGP
    >>> x = np.linspace(-1, 1, 40)[:, None]
    >>> t = np.arange(40) % 2
    >>> model = DeepKernelGP(members=1, folds=1, hidden=8, depth=1, max_epochs=3).fit(x[:, 0] + t, t, X=x)
    >>> model.posterior(x).mean.shape
    (40, 2)
    """

    inference: Inference = "auto"
    kernel: str = "matern32"
    folds: int | None = None
    inducing: int = 100
    sites: int = 256
    max_exact: int = 1000

    presets: ClassVar = PRESETS["due"]

    def _fit(self, labels: LabelSet, pool: AnyArray, validation: LabelSet | None) -> None:
        """Train the members, and set ``network_`` and ``state_``, the tensors from which beliefs follow.

        Raises InputError if a parameter makes no sense, and TrainingError if no weights have a finite score.
        """
        for name in ("sites", "max_exact", "inducing"):
            check_int(getattr(self, name), name, low=1)
        check_choice(self.kernel, "kernel", tuple(KERNELS))
        label_tensors, validation_tensors = self._prepare(labels, pool, validation)
        self.collapsed_ = self._is_collapsed()
        objective = self._stop_early(label_tensors, validation_tensors)
        rng = generator(self.random_state, "sites")
        site_positions = np.sort(rng.choice(len(pool), size=min(self.sites, len(pool)), replace=False))
        tensors = {
            **(objective.belief() if isinstance(objective, VariationalBound) else {}),
            "x": label_tensors.x.cpu(),
            "t": label_tensors.t.cpu(),
            "y": label_tensors.y.cpu(),
            "core": torch.as_tensor(np.sort(rng.permutation(len(label_tensors))[: self.max_exact])),
            "pool": self.scaling_.covariates(pool[site_positions]),
        }
        self.network_ = objective.network
        self._restore_tensors(tensors)

    def _stop_early(self, labels: LabelTensors, validation: LabelTensors | None) -> BatchEvidence | VariationalBound:
        """Train the members, set ``steps_``, and return the objective with the trained network. Called by ``_fit``.

        With validation labels, members stop on these labels. With one fold, each member stops on its own share of the
        labels. Otherwise the folds are trained first, and each member is then trained on all labels for as many steps
        as the folds needed on average.
        """
        default_folds, default_members = (1, 1) if self._of_images else (4, 4 if validation is None else 1)
        folds = default_folds if self.folds is None else check_int(self.folds, "folds", low=1)
        members = default_members if self.members is None else check_int(self.members, "members", low=1)
        if validation is not None or folds == 1:
            member_labels = self._member_labels(labels, validation, members)
            objective, self.steps_ = self._train("member", member_labels, self._schedule)
            return objective
        _, fold_steps = self._train("fold", self._member_labels(labels, None, folds), self._schedule)
        steps = max(1, round(float(np.mean(fold_steps))))
        schedule = replace(self._schedule, max_steps=steps, every=steps)
        objective, _ = self._train("member", MemberLabels.of_all(labels, members), schedule)
        self.steps_ = [steps] * members
        return objective

    @property
    def _schedule(self) -> Schedule:
        """How long to train; ``epoch_steps`` and ``patience`` None get the defaults of the objective.

        Needs ``collapsed_``. Raises InputError if a parameter makes no sense.
        """
        every, patience = (10, 4) if self.collapsed_ else (100, 5)
        every = every if self.epoch_steps is None else self.epoch_steps
        schedule = make_schedule(every, patience if self.patience is None else self.patience, self.max_epochs)
        return replace(schedule, warm_up=IMAGE_WARM_UP_STEPS) if self._of_images else schedule

    def _is_collapsed(self) -> bool:
        """Return whether to train on the evidence instead of the paper's bound.

        Raises InputError if ``inference`` is unknown, or is "collapsed" for binary outcomes.
        """
        check_choice(self.inference, "inference", get_args(Inference))
        if self.binary_ and self.inference == "collapsed":
            raise InputError(
                "binary outcomes need inference='minibatch' (or 'auto'): their evidence has no closed form."
            )
        return not self.binary_ and self.inference != "minibatch"

    def _train(
        self, purpose: str, member_labels: MemberLabels, schedule: Schedule
    ) -> tuple[BatchEvidence | VariationalBound, list[int]]:
        """Train a new network with a member for each member of ``member_labels``. Called by ``_stop_early``.

        Returns the objective with the trained network, and the step at which each member scored best. The list of steps
        is empty if nothing is held out. ``purpose`` ("fold" or "member") selects the random streams.
        """
        labels, rows = member_labels.labels, member_labels.rows
        network = self._build(self._streams(purpose, len(rows.lengths)))
        core = rows.draw_columns(self.max_exact, generator(self.random_state, purpose, "rows"))
        core_rows = rows.take_columns(core)
        network.initialise(labels.take(core_rows.index).x)
        size = None if self.batch_size is None else check_int(self.batch_size, "batch_size", low=1)
        objective: BatchEvidence | VariationalBound
        if self.collapsed_:
            objective = BatchEvidence(network, member_labels, size, core, self._chunk)
        else:
            points = self._initial_points(network, labels, core_rows)
            objective = VariationalBound(network, member_labels, size or len(labels), points, binary=self.binary_)
        trained = objective if isinstance(objective, VariationalBound) else network
        rate = self._rate * (TABLE_RATE_FACTOR if self.collapsed_ and not self._of_images else 1.0)
        optimiser = adam(trained, network.encoder, rate, decay=self._decay(len(labels)), gain=PROCESS_RATE_FACTOR)
        stop_score = member_labels.stop_score(objective.stop_score, self._chunk)
        per_member = (member_labels, network.streams)
        return objective, train(trained, optimiser, objective.loss, schedule, stop_score, per_member)

    def _initial_points(self, network: DeepKernel, labels: LabelTensors, rows: MemberRows) -> Tensor:
        """Return the first inducing points (M, m, F + 1): cluster centres of the features, with random treatments.

        m is ``inducing``, or less if a member has fewer distinct features. Random treatments lie between 0 and the
        feature of a treated unit. ``rows`` are the labels of each member that are clustered.
        """
        with torch.no_grad():
            features = network.encoder(labels.x[rows.index]).cpu().numpy()
        distinct = [np.unique(f[mask > 0], axis=0) for f, mask in zip(features, rows.mask.cpu().numpy(), strict=True)]
        n_points = min(self.inducing, *(len(f) for f in distinct))
        from sklearn.cluster import KMeans  # heavy: `campaign ask` imports this file, and needs no network

        clusters = [KMeans(n_points, n_init=1, random_state=self.random_state).fit(f) for f in distinct]
        centres = torch.as_tensor(np.stack([c.cluster_centers_ for c in clusters]), dtype=torch.float32)
        treatment = network.streams.uniform((n_points, 1)) * network.log_treatment.detach().exp().cpu()
        return torch.cat([centres, treatment], -1).to(labels.y.device)

    def _posterior(self, x: AnyArray, *, joint: bool) -> Posterior:
        """Return the belief about units x (N, ...), in the outcome's unit.

        With ``joint``, and always with the paper's bound, the belief comes from the members' sites. Otherwise it comes
        from the labels, or from the sites if there are more than ``max_exact`` labels. That is faster.
        """
        beliefs, features = self._beliefs, self._features(x)
        if self.collapsed_ and not joint:
            members = zip(beliefs.single, beliefs.kernels, features, strict=True)
            return self._mixture(single.posterior(kernel, z) for single, kernel, z in members)
        link: Link = "probit" if self.binary_ else "identity"
        site_members = zip(beliefs.sites, beliefs.kernels, features, strict=True)
        return self._mixture(
            sites.posterior(kernel, z.double(), joint=joint, link=link) for sites, kernel, z in site_members
        )

    def _mixture(self, beliefs: Iterable[Posterior]) -> Posterior:
        """Return the mixture, in the outcome's unit, of the members' ``beliefs`` in standard units."""
        # Each belief is rescaled by itself, since the factor of the mixture can be large.
        return Posterior.mixture([b.rescaled(self.scaling_.y_scale, self.scaling_.y_mean) for b in beliefs])

    def cross_belief(self, X: Any) -> CrossBeliefOf | None:
        """Return a function from new units to their belief and to their covariances with the units in ``X``.

        The covariances are exact up to ``max_exact`` labels.

        Parameters
        ----------
        X : (J, D) array or DataFrame, or images (J, C, H, W)
            The units with which covariances are wanted.

        Returns
        -------
        callable or None
            A function of units (N, ...) that returns a CrossBelief. None for models trained on the paper's bound,
            whose covariances between units run through the inducing points.

        Examples
        --------
        >>> import numpy as np
        >>> from causalbald.models import DeepKernelGP
        >>> x = np.linspace(-1, 1, 40)[:, None]
        >>> t = np.arange(40) % 2
        >>> model = DeepKernelGP(members=1, folds=1, hidden=8, depth=1, max_epochs=3).fit(x[:, 0] + t, t, X=x)
        >>> units = model.cross_belief(x[:3])(x)
        >>> units.covariance(slice(0, 10), t[:10], None).shape
        (10, 3)
        """
        if not self.collapsed_:
            return None
        members = [
            ProcessCrossBelief.of(kernel, single, z)
            for kernel, single, z in zip(
                self._beliefs.kernels, self._beliefs.single, self._features(self._check_new(X)), strict=True
            )
        ]
        weights, other_means = np.full(len(members), 1 / len(members)), np.stack([m.mean.numpy() for m in members])

        def cross_belief(x: AnyArray) -> CrossBelief:
            """Return the belief about checked units x (N, ...), and their covariances with the units in ``X``."""
            units = [m.at(z) for m, z in zip(members, self._features(x), strict=True)]
            beliefs = [unit.posterior() for unit in units]
            unit_means = np.stack([belief.mean.T for belief in beliefs])  # (M, K, N)

            def covariance(rows: slice, treatment: Treatment, arm: int | None) -> Array:
                """Return covariances (n, J) between expected outcomes of units of x and of the J units in ``X``.

                ``rows`` selects n units of x, each under its arm in ``treatment`` (n,). The units in ``X`` are under
                ``arm``; None means their effects.
                """
                # Covariance of a mixture: the mean of the members' covariances, plus that of the members' means.
                t = torch.as_tensor(treatment, dtype=torch.long)
                within = torch.stack([unit.covariance(rows, t, arm) for unit in units]).mean(0).numpy()
                means = unit_means[..., rows][:, treatment, np.arange(len(treatment))]
                total = within + between_members(means, of_arm(other_means, arm), weights)
                return np.asarray(total * self.scaling_.y_scale**2)

            return CrossBelief(self._mixture(beliefs), covariance)

        return cross_belief

    def _features(self, x: AnyArray) -> Tensor:
        """Return features (M, N, F) of units x (N, ...) for each member, without the treatment's feature."""
        return self.network_.encode(self.scaling_.covariates(x), self._chunk)

    def _build(self, streams: RandomStreams) -> DeepKernel:
        """Return the untrained kernel, with a member for each stream, on the model's device."""
        return DeepKernel(self.shape_, self._architecture, streams, self.kernel, self.encoder).to(self._device())

    def _extra_tensors(self) -> dict[str, Tensor]:
        """Return the tensors that ``MemberBeliefs`` describes, the labels among them."""
        return self.state_

    def _restore_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Set what beliefs follow from; tensors with inducing ``points`` are those of the paper's bound."""
        self.state_, self.collapsed_ = tensors, "points" not in tensors
        self._beliefs = MemberBeliefs(self.network_, tensors, self._chunk)
