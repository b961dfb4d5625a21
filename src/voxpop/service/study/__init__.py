"""Studies of the service: their log, the snapshot that follows from it, and the steps that advance them."""
