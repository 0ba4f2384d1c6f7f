"""Trained translators for engines that only run them: exported, verified, and used."""
