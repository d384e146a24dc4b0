"""What an author runs: proofs of the suites."""
