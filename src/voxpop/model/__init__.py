"""What everything else builds on: the problem, its decisions and kernels, plans and feedback, and the state."""
