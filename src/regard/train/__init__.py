"""Training: one loop for every model. It knows batches, losses and weights, and no task."""
