# SPDX-License-Identifier: Apache-2.0
"""A berth-serve with a tiny random model, for tests of its clients."""

import json
import subprocess
import sys
import threading
import urllib.request

PATIENCE = 120  # seconds after which something is taken not to happen any more

# The vocabulary of the tiny model: ids below 16 are control tokens, id 16 + b is byte b. With these
# biases its answers are visible ASCII and go on to the limit of tokens.
READABLE = {str(i): -100 for i in range(16 + 256) if not 16 + 0x21 <= i < 16 + 0x7F}


class Server:
    """Runs from its making until stop()."""

    def __init__(self, command, *arguments):
        self.process = subprocess.Popen(
            [command, "--random=tiny", "--port", "0", "--memory", "256M", *arguments],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.url = None
        for line in self.process.stdout:
            if line.startswith("listening on "):
                self.url = line.split()[-1]
                break
        if self.url is None:
            raise RuntimeError(f"the server ended with {self.process.wait()} instead of listening")
        self.reader = threading.Thread(target=self.process.stdout.read, daemon=True)
        self.reader.start()

    def memory(self):
        """What GET /memory says."""
        with urllib.request.urlopen(self.url + "/memory", timeout=PATIENCE) as answer:
            return json.load(answer)

    def stop(self):
        """Ends the server as an operator does; it has to end well."""
        self.process.terminate()
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.reader.join()
        self.process.stdout.close()
        if status != 0:
            raise RuntimeError(f"the server ended with {status}")


def skip(reason):
    """Ends the program as a skipped test of CTest's."""
    print("skipped:", reason)
    sys.exit(77)
