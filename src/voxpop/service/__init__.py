"""The service: a coordinator that drives phases over HTTP, and a shuffler that it need not trust with anything else."""
