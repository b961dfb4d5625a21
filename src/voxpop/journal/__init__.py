"""What happened in a study, and what follows from it: one wave, the log, the course, and its tables."""
