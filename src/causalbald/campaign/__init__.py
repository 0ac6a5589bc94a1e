"""A study in progress: whom to measure next, and what can be concluded so far."""
