"""Statistics: how often every row of every table is used, and how hashing collides IDs."""

from recshard.profile.profile import FeatureStats, HashingStats, Profile, TableStats
from recshard.profile.storage import load_profile, save_profile

__all__ = ["FeatureStats", "HashingStats", "Profile", "TableStats", "load_profile", "save_profile"]
