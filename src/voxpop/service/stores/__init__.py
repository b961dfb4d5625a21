"""The databases of a service: an embedded SQLite file, or PostgreSQL if several processes share one."""
