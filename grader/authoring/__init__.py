"""What an author runs: skeletons, a new exercise, the rules of the project, the proof of suites."""
