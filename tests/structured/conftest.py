from tests.coupled import adapted_net, one_thread  # noqa: F401 (fixtures)
