"""Records, the catalog of exercises, TOML, translation: what all other folders build on."""
