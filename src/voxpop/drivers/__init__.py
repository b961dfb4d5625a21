"""What moves a study on: the phase, written once, and the drivers that collect answers in their own way."""
