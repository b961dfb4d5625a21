"""What everything else speaks about: the problem, its decisions and kernels, plans and feedback, and the state."""
