"""Gaussian processes: which arms a wave plays, how far estimates can be off, and what is believed."""
