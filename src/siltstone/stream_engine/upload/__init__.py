"""From a sealed cache block to committed objects: plan (pure), encode, put, commit in order, trim."""
