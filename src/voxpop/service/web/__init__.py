"""HTTP: addresses, roles, limits and pages."""
