"""Versions of the coordinator's schema."""
