"""`python -m bench` runs every benchmark, `python -m bench NAME ...` the ones named."""

import sys

from bench import embedding, encoder, generation, looking, training

BENCHMARKS = {
    "encoder": encoder.main,
    "embedding": embedding.main,
    "generation": generation.main,
    "looking": looking.main,
    "training": training.main,
}


def main() -> int:
    names = sys.argv[1:] or list(BENCHMARKS)
    for name in names:
        if name not in BENCHMARKS:
            print(f"no benchmark {name!r}: there is {', '.join(BENCHMARKS)}")
            return 2
        BENCHMARKS[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
