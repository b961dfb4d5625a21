"""Run by `make flower` only, in an environment of its own: Flower and the service cannot share one."""
