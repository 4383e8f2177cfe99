"""Locks with kazoo what it is told on standard input, a line each: thread, command, path. Each command is answered on
standard output, with the thread's name first."""

import queue
import sys
import threading

from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock


class SharedLock(Lock):
    """A Lock that stands in one queue with Curator's."""

    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["lock-"]


output = threading.Lock()


def say(thread, what):
    with output:
        print(thread, str(what).replace("\n", " "), flush=True)


def obey(client, locks, command, path):
    lock = locks.setdefault(path, SharedLock(client, path, "kazoo"))
    if command == "lock":
        lock.acquire()
        return "locked"
    if command == "try":
        return "locked" if lock.acquire(blocking=False) else "busy"
    if command == "unlock":
        lock.release()
        return "unlocked"
    if command == "participants":
        return "participants %d" % len(lock.contenders())
    return "error unknown command"


def work(client, name, commands):
    locks = {}
    while True:
        command, path = commands.get()
        try:
            say(name, obey(client, locks, command, path))
        except Exception as e:  # whatever it is, the test is told
            say(name, "error %r" % e)


def main():
    client = KazooClient(hosts=sys.argv[1], timeout=int(sys.argv[2]) / 1000)
    client.start()
    client.ensure_path("/")
    threads = {}
    for line in sys.stdin:
        name, command, path = line.split()
        if name not in threads:
            threads[name] = queue.Queue()
            threading.Thread(target=work, args=(client, name, threads[name]), daemon=True).start()
        threads[name].put((command, path))
    client.stop()


main()
