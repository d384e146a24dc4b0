"""The folder in which a learner works with an installed package: writing it and updating it."""
