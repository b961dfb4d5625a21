"""Run by `make flower` only, in an environment of its own: Flower pins other versions than the service needs."""
