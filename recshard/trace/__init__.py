"""Reading: one module per format, one synthetic generator, ID hashing."""
