"""What moves a study on: `phase` holds what all drivers share, and each driver collects answers in its own way."""
