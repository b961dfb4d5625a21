"""Simulated people, named studies, measurements against the truth, experiments and benchmarks."""
