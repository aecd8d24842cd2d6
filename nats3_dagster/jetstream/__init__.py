"""JetStream: connect, read a range, publish, administrate. The only place that speaks NATS.

The rule kept here: nats-py owns the connection (servers, TLS, logins, JetStream API calls). Messages in bulk never pass
its per-message path: they go between the socket and Arrow arrays.
"""
