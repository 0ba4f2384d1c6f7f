"""What people write around CTranslate2: an application that calls it once a request. Starlette alone, so that
it has no more to do than FastAPI would.

python -m regard.bench.serving_peer ENGINE TOKENIZER WORKERS THREADS BEAM PORT
"""

import sys

import ctranslate2
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from regard.deploy.engine import token_names
from regard.tasks.translation.encoding import encode_sources
from regard.text import Tokenizer


def main() -> None:
    folder, own, workers, threads, beam, port = sys.argv[1:]
    tokenizer = Tokenizer.load(own)
    engine = ctranslate2.Translator(
        folder,
        device="cpu",
        compute_type="int8",
        inter_threads=int(workers),
        intra_threads=int(threads),
    )
    names = token_names(tokenizer, len(tokenizer))
    ids = {name: id for id, name in enumerate(names)}

    def translate(text: str) -> str:
        (row,) = encode_sources(tokenizer, [text])
        tokens = [names[id] for id in row]
        (found,) = engine.translate_batch(
            [tokens], beam_size=int(beam), length_penalty=1.0, max_decoding_length=2 * len(tokens) + 20
        )
        return tokenizer.decode([ids[token] for token in found.hypotheses[0]])

    async def answer(request: Request) -> JSONResponse:
        text = (await request.json())["texts"]
        return JSONResponse({"text": await run_in_threadpool(translate, text)})

    app = Starlette(routes=[Route("/translate", answer, methods=["POST"])])
    uvicorn.run(app, port=int(port), log_level="error")


if __name__ == "__main__":
    main()
