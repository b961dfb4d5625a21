"""The policy `waves`: ask as many people as pay for themselves, a handful of times."""

from voxpop.policies.waves.policy import Waves

__all__ = ["Waves"]
