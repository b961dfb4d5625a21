"""`make soak`: thousands of devices, two coordinators, a shuffler and PostgreSQL for an hour, while things break."""
