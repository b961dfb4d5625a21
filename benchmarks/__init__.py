"""How fast and how good voxpop is: `python -m benchmarks` for speed, and a program for each of the other figures."""
