"""What all answers together say: the pooled posterior, and whether the model still fits."""
