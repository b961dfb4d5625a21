"""The service: a coordinator that runs studies over HTTP, and a shuffler that adds up reports for it."""
