"""How fast voxpop is: ratios of times taken in one run, on one thread, beside the machine's own limits."""
