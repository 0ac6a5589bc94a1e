"""A study in progress: whom to measure next, and what can be concluded so far."""

from causalbald.campaign._campaign import Campaign

__all__ = ["Campaign"]
