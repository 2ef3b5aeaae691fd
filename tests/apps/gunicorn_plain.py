"""gunicorn as it comes, without the kit's settings: for tests of other workers."""

control_socket_disable = True  # two servers side by side would fight for it
