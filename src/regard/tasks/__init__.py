"""What a trained model does."""
