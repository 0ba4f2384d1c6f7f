"""All that can be set, as plain data: what a recipe and a config.json say. Nothing here imports torch, so
that a mistake is told at once, and text can be looked at without it.

    network    attention, feed-forward, norms, positions, stacks: one table for each part
    models     encoders, decoders, translators and heads, made of those
    shape      a model in a few words: a preset, and what is changed about it
    presets    the shapes that have a name
    training   batches, masks, losses, optimizers, averages, and the loop
"""
