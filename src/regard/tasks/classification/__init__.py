"""Classification and regression: a text, or a pair of texts, in; labels or a number out."""
