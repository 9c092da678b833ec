"""Two configurations side by side: launches, paired statistics, a verdict in words, or a refusal with its reasons."""
