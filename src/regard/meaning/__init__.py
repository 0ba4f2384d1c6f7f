"""What vectors are good for: finding, grouping and sorting texts by what they mean."""
