"""What moves a study on: `wave` holds what all drivers share, and each driver collects answers in its own way."""
