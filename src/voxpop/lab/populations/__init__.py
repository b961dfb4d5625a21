"""Simulated populations that answer. The truth they carry is for `metrics` alone."""

from voxpop.drivers.simulate import FinitePopulation, GaussianPopulation, Population

__all__ = ["FinitePopulation", "GaussianPopulation", "Population"]
