"""What the explorer's page asks about a model: questions with plain answers, ready for JSON."""
