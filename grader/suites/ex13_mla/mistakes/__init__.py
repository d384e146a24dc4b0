"""What goes wrong in latent attention, by name."""
