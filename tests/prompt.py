"""A prompt at which `regard` starts at once: a process that has imported everything forks for each command.

python tests/prompt.py serve SOCKET             once
python -S tests/prompt.py ask SOCKET ARG ...    for each command: as `regard ARG ...` would, here
"""

import json
import os
import socket
import sys
from pathlib import Path


def serve(place: str) -> None:

    import regard.corpus.commands
    import regard.deploy.engine
    import regard.deploy.exchange
    import regard.look.explore
    import regard.look.plot_commands
    import regard.meaning.answers
    import regard.meaning.commands
    import regard.meaning.evaluating
    import regard.meaning.mining
    import regard.tasks.classification.commands
    import regard.tasks.embedding.commands
    import regard.tasks.embedding.train
    import regard.tasks.language.commands
    import regard.tasks.language.evaluate
    import regard.tasks.language.train
    import regard.tasks.pretraining.commands
    import regard.tasks.pretraining.train
    import regard.tasks.reranking.commands
    import regard.tasks.reranking.train
    import regard.tasks.run
    import regard.tasks.tagging.train
    import regard.tasks.translation.train  # noqa: F401
    from regard.cli import main
    from regard.tasks.registry import all_tasks

    all_tasks()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(place)
        server.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            connection, _ = server.accept()
            message, files, _, _ = socket.recv_fds(connection, 1_000_000, 3)
            if child := os.fork():
                for file in files:
                    os.close(file)
                _, status = os.waitpid(child, 0)
                connection.sendall(bytes([os.waitstatus_to_exitcode(status) & 0xFF]))
                connection.close()
                continue
            asked = json.loads(message)
            for number, file in enumerate(files):
                os.dup2(file, number)
            os.chdir(asked["folder"])
            sys.argv = ["regard", *asked["arguments"]]
            code = 1
            try:
                main()
                code = 0
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)


def ask(place: str, arguments: list[str]) -> int:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(place)
        message = json.dumps({"folder": str(Path.cwd()), "arguments": arguments}).encode()
        socket.send_fds(client, [message], [0, 1, 2])
        return client.recv(1)[0]


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    sys.exit(ask(sys.argv[2], sys.argv[3:]))
