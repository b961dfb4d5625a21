"""Telling others what happens: who wants to hear it, what is told, and how it is sent."""
