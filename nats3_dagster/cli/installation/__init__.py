"""Commands about this installation: settings, servers, streams, permissions, health."""
