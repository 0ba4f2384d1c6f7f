"""What an encoder is put to: pretraining, classifying, tagging, embedding."""
