"""What all tests share."""

import os

from hypothesis import HealthCheck, settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("xlabuilder", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("xlabuilder")

# Operations across devices need several. jax asks for the number when it is first used, so that it
# has to be said here, for all tests; those of one device run on the first as before.
_DEVICES = "--xla_force_host_platform_device_count"
if _DEVICES not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_DEVICES}=8".strip()
