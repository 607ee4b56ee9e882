"""Statistics: how often every row of every table is used, and how hashing collides IDs."""

from recshard.profile.lengths import Lengths
from recshard.profile.profile import FeatureStats, HashingStats, Profile, TableStats
from recshard.profile.profiler import Profiler
from recshard.profile.reuse import access_histogram, reuse_histogram
from recshard.profile.storage import load_profile, save_profile
from recshard.reuse_bins import REUSE_EDGES

__all__ = [
    "REUSE_EDGES",
    "FeatureStats",
    "HashingStats",
    "Lengths",
    "Profile",
    "Profiler",
    "TableStats",
    "access_histogram",
    "load_profile",
    "reuse_histogram",
    "save_profile",
]
