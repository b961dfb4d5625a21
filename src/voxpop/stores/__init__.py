"""Where a service keeps what it must not lose: an embedded SQLite file, or PostgreSQL when several run."""
