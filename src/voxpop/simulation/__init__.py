"""Simulated people, named studies, measurements against the truth, and comparisons."""
