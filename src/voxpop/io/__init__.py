"""Files and messages: JSON, TOML and CSV."""
