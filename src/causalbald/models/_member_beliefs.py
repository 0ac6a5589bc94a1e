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
    """Beliefs of each member, in standard units.

    ``tensors`` are the labels x, t and y, the rows ``core`` of those that stand for all, and the units ``pool``
    through which covariances between units run. The paper's bound adds its inducing ``points``, the belief there
    (``mean`` and ``root``), and the prior's root there. ``DeepKernelGP`` makes these tensors and saves them.
    """

    def __init__(self, network: DeepKernel, tensors: dict[str, Tensor], chunk: int) -> None:
        self._network, self._tensors, self._chunk = network, tensors, chunk

    @cached_property
    def kernels(self) -> list[MemberKernel]:
        """Kernel of each member on features."""
        return self._network.member_kernels()

    @cached_property
    def sites(self) -> list[Sites]:
        """Belief of each member at its sites, from which joint beliefs follow."""
        return self._learned_sites() if "points" in self._tensors else self._exact_sites()

    @cached_property
    def single(self) -> list[Single]:
        """Belief of each member about single units. The exact process needs no other sites than the labels for it."""
        s = self._tensors
        if len(s["core"]) < len(s["y"]):
            return [Single.of_sites(sites) for sites in self.sites]
        features = self._network.encode(s["x"], self._chunk)
        return [_from_labels(k, x, s["t"], s["y"]) for k, x in zip(self.kernels, features, strict=True)]

    def _exact_sites(self) -> list[Sites]:
        """Return sites at the ``core`` labels and, in both arms, at the ``pool`` units."""
        s = self._tensors
        labels, pool = (self._network.encode(s[name], self._chunk).double() for name in ("x", "pool"))
        members = zip(self.kernels, labels, pool, strict=True)
        return [Sites.after_labels(k, x, s["t"], s["y"].double(), s["core"], u) for k, x, u in members]

    def _learned_sites(self) -> list[Sites]:
        """Return the inducing points as sites. Their last feature is the treatment, which may lie between 0 and 1."""
        s = self._tensors
        members = zip(self.kernels, s["points"], s["prior_root"], s["mean"], s["root"], strict=True)
        return [
            Sites(points[:, :-1], points[:, -1] / kernel.treatment, SiteBelief(prior_root, mean, root))
            for kernel, points, prior_root, mean, root in members
        ]


def _from_labels(kernel: MemberKernel, x: Tensor, t: Tensor, y: Tensor) -> Single:
    """Return the belief about single units after labels with features x (n, F), arms t (n,) and outcomes y (n,).

    The belief is in single precision where noise hides the rounding errors.
    """
    exact = Single.of(kernel, x.double(), t, y.double())
    is_noisy = bool(kernel.noise.min() > MIN_NOISE_SHARE * kernel.variance)
    return exact.rounded() if is_noisy else exact
