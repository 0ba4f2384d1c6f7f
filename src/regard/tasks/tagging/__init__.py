"""Token classification: a sentence in, a tag for each word out."""
