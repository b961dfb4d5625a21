"""The machine: its memory, its threads, and repeatable random streams."""
