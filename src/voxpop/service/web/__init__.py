"""The services over HTTP: routes, roles, limits and pages."""
