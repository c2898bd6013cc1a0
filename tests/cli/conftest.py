from tests.coupled import adapted_net, one_thread  # noqa: F401 (fixtures)
from tests.data.conftest import draw  # noqa: F401 (fixture)
