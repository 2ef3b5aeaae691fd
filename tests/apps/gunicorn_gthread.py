"""The kit's hooks under a worker of threads, as a file of one's own may have it."""

from flaskstream.serving.deploy import hurry, wait_for_generations, watch_worker

worker_class = "gthread"
threads = 4
control_socket_disable = True  # two servers side by side would fight for it


def post_worker_init(worker):
    watch_worker(worker)


def worker_int(worker):
    hurry()


def worker_exit(server, worker):
    wait_for_generations(worker)
