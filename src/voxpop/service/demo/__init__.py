"""A demonstration: the whole service on one machine, checked against the simulator."""
