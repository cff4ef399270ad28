"""The typed messages between the controller and the process that estimates device memory."""

from __future__ import annotations

import msgspec

from .messages import CaseOptions

__all__ = [
    "EstimateConfigs",
    "Estimated",
    "EstimatorOptions",
    "FromEstimator",
    "PrepareEstimator",
    "PreparedEstimator",
    "ToEstimator",
]


class EstimatorOptions(msgspec.Struct, frozen=True):
    """What holds for every estimate of a session.

    ``torch_on_device``: the reference is computed on the same device as Paddle. ``caches_kept``: neither framework
    gives the memory back that it has freed, so that both sides' peaks add up.
    """

    case: CaseOptions = CaseOptions()
    torch_on_device: bool = False
    caches_kept: bool = False


class PrepareEstimator(msgspec.Struct, frozen=True, tag="prepare"):
    """Controller to child, first of all. ``estimator`` is ``package.module:Class``."""

    estimator: str
    options: EstimatorOptions


class EstimateConfigs(msgspec.Struct, frozen=True, tag="estimate"):
    """Controller to child: estimate these, in this order."""

    configs: tuple[str, ...]


class PreparedEstimator(msgspec.Struct, frozen=True, tag="prepared"):
    """Child to controller: everything is imported."""

    pid: int


class Estimated(msgspec.Struct, frozen=True, tag="estimated"):
    """Child to controller: one answer, in the order of the questions. ``way`` is how it was found."""

    config: str
    size: int
    way: str


ToEstimator = PrepareEstimator | EstimateConfigs
FromEstimator = PreparedEstimator | Estimated
