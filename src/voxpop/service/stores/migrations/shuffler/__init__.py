"""Versions of the shuffler's schema."""
