"""What type checkers must refuse: each line that is marked, and no other."""

import regard

translator = regard.load("runs/a", regard.Translator)
translator.translate("One.", beam=4)  # error: a setting that translate does not take
translator.classify("One.")  # error: what another predictor does
regard.load("runs/a").translate("One.")  # error: without a kind, nobody knows that it translates
regard.load("runs/a", regard.Translator, precision="int3")  # error: a precision that is not there
regard.fit("recipe.toml")  # error: nowhere to write
regard.DecodeConfig(method="beem")  # error: a method that is not there
with regard.trace(translator, what="wieghts") as seen:  # error: what cannot be looked at
    seen.weights("corss")  # error: a place that is none
wrong = regard.tarnslate  # error: no such name
