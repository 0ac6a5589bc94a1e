"""What the members of a fitted deep-kernel process believe, computed from its tensors when first needed."""

from __future__ import annotations

from functools import cached_property

from torch import Tensor

from causalbald.models._nn.deep_kernel import DeepKernel, MemberKernel
from causalbald.models._sites import Single, SiteBelief, Sites

# Share of the kernel's variance. With more noise than this, the noise hides the rounding errors of single precision:
# with up to 1,000 labels, variances were off by half a per cent at most.
MIN_NOISE_SHARE = 0.01


class MemberBeliefs:
    """Beliefs of each member, in standard units, computed when they are first needed.

    ``tensors`` has the labels x, t and y. ``core`` are the rows of the labels that stand for all labels, and ``pool``
    has the covariates of the units through which covariances between units run. The paper's bound adds its inducing
    ``points``, the belief at these points (``mean`` and ``root``) and the root of their prior, ``prior_root``.
    ``DeepKernelGP`` makes these tensors and saves them.

    ``chunk`` units at a time pass through the network.
    """

    def __init__(self, network: DeepKernel, tensors: dict[str, Tensor], chunk: int) -> None:
        self._network, self._tensors, self._chunk = network, tensors, chunk

    @cached_property
    def kernels(self) -> list[MemberKernel]:
        """Kernel of each member on features."""
        return self._network.member_kernels()

    @cached_property
    def sites(self) -> list[Sites]:
        """Belief of each member at its sites, from which joint beliefs follow.

        The sites are the inducing points of the paper's bound or, without such points, labels and units of the pool.
        """
        return self._learned_sites() if "points" in self._tensors else self._exact_sites()

    @cached_property
    def single(self) -> list[Single]:
        """Belief of each member about single units, without covariances between units.

        It comes from the labels alone if all labels are in ``core``, else from the sites. It is never used with the
        paper's bound.
        """
        s = self._tensors
        if len(s["core"]) < len(s["y"]):
            return [Single.of_sites(sites) for sites in self.sites]
        features = self._network.encode(s["x"], self._chunk)
        return [_from_labels(k, x, s["t"], s["y"]) for k, x in zip(self.kernels, features, strict=True)]

    def _exact_sites(self) -> list[Sites]:
        """Return, for each member, sites at the ``core`` labels and, in both arms, at the ``pool`` units.

        Sites that other sites explain are left out.
        """
        s = self._tensors
        labels, pool = (self._network.encode(s[name], self._chunk).double() for name in ("x", "pool"))
        members = zip(self.kernels, labels, pool, strict=True)
        return [Sites.after_labels(k, x, s["t"], s["y"].double(), s["core"], u) for k, x, u in members]

    def _learned_sites(self) -> list[Sites]:
        """Return, for each member, the inducing points as sites.

        The last feature of a point becomes the arm of the site, which may lie between 0 and 1.
        """
        s = self._tensors
        members = zip(self.kernels, s["points"], s["prior_root"], s["mean"], s["root"], strict=True)
        return [
            Sites(points[:, :-1], points[:, -1] / kernel.treatment, SiteBelief(prior_root, mean, root))
            for kernel, points, prior_root, mean, root in members
        ]


def _from_labels(kernel: MemberKernel, x: Tensor, t: Tensor, y: Tensor) -> Single:
    """Return the belief about single units after labels with features x (n, F), arms t (n,) and outcomes y (n,).

    The belief is in single precision if the noise hides the rounding errors (``MIN_NOISE_SHARE``), else in double.
    """
    exact = Single.of(kernel, x.double(), t, y.double())
    is_noisy = bool(kernel.noise.min() > MIN_NOISE_SHARE * kernel.variance)
    return exact.rounded() if is_noisy else exact
