"""JetStream: connect, read a range, publish, administrate. The only place that speaks NATS.

nats-py owns the connection: servers, TLS, logins, JetStream API calls. Messages in bulk never pass its path for single
messages: they go between the socket and Arrow arrays.
"""
