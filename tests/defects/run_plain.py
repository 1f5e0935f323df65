"""Program: run a reproducer without rewrites, and print "right", "wrong" or "error"."""

from __future__ import annotations

import sys

from tests.defects.reproducer import differing_results, read


def main(name: str) -> None:
    """Run the reproducer `name` without rewrites and refusals."""
    reproducer = read(name)
    import jax

    device_count = reproducer.replicas * reproducer.partitions
    if device_count > 1:
        jax.config.update("jax_num_cpu_devices", device_count)
    import lowering
    from lowering.legalize import bounded_ops, registry

    lowering.compile  # noqa: B018  (loads all modules that register rewrites)
    registry.REWRITES.clear()
    registry.REFUSALS.clear()
    bounded_ops.BOUNDED.clear()
    try:
        differing = differing_results(reproducer)
    except lowering.CompileError as error:
        print("error", str(error).replace("\n", " "))
        return
    print(f"wrong {differing}".replace("\n", " ") if differing else "right")


if __name__ == "__main__":
    main(sys.argv[1])
