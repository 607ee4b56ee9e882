"""An embedding bag whose rows stand in several tiers, reached through a remap."""
