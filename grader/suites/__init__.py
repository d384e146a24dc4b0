"""A folder for each exercise: checks, mistakes, right variants, hints, speed."""
