"""Battles between systems that are asked now, and their pages."""

from ragtasks.arena.web.live._battles import LiveBattles
from ragtasks.arena.web.live._pages import live_pages

__all__ = ["LiveBattles", "live_pages"]
