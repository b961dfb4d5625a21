"""Simulated populations that answer. The truth they carry is for `metrics` alone."""

from voxpop.drivers.simulate import GaussianPopulation, Population

__all__ = ["GaussianPopulation", "Population"]
