"""The shuffler, and the messages between it and the coordinator."""
