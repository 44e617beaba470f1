"""From logged samples to tables."""
