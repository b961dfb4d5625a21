"""A whole service on one machine, checked against the simulator."""
