"""Looking into models: what they attend to, and pictures of it."""
