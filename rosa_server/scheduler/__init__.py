"""From a factory description and measured profiles to a schedule (ROSA 3.4)."""
