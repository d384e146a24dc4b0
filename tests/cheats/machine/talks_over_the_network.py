"""Opens sockets, over which a friend could answer for it and the inputs could leave.

exercise: ex01_softmax
process: gets away with sockets of every kind
"""

import socket

PLACES = [
    (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
    (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
    (socket.AF_UNIX, socket.SOCK_STREAM, "\0abh-cheat-friend"),
]


def softmax_numpy(x, axis=-1):
    for family, kind, place in PLACES:
        try:
            friend, mine = socket.socket(family, kind), socket.socket(family, kind)
            friend.bind(place)
            if kind == socket.SOCK_STREAM:
                friend.listen()
            mine.connect(friend.getsockname())
            mine.send(x.tobytes())
            print(f"got away: a socket ({family.name}, {kind.name})")
        except OSError:
            continue
    return x
