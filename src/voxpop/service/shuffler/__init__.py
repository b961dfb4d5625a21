"""The shuffler, and how it and the coordinator talk."""
