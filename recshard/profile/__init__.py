"""Statistics: how often every row of every table is used, and how hashing collides IDs."""
