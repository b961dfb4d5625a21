"""What a run looks like: words, pictures and one self-contained page."""
