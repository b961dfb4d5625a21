"""Studies of the service: their log, what follows from it, and the steps that move them on."""
