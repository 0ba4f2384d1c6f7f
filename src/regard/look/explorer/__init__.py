"""What the explorer's page is told about a model: questions with plain answers, ready for JSON."""
