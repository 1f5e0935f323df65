"""Run a reproducer without the rewrites, as a program: print "right", "wrong" or "error"."""

from __future__ import annotations

import sys

from tests.defects.reproducer import read, same


def main(name: str) -> None:
    """Run the reproducer `name` as XLA itself compiles it."""
    reproducer = read(name)
    import jax

    if reproducer.replicas > 1:
        jax.config.update("jax_num_cpu_devices", reproducer.replicas)
    import lowering
    from lowering.legalize import bounded_ops, registry

    lowering.compile  # noqa: B018  (loads all modules that register rewrites)
    registry.REWRITES.clear()
    registry.REFUSALS.clear()
    bounded_ops.BOUNDED.clear()
    module = lowering.load_bytes(reproducer.module)
    try:
        program = lowering.compile(module, "cpu", num_replicas=reproducer.replicas)
        given = reproducer.arguments
        if reproducer.replicas > 1:
            given = tuple([one] * reproducer.replicas for one in given)
        results = program(*given)
        if reproducer.replicas == 1:
            results = [results]
        flat = [list(one) if isinstance(one, (tuple, list)) else [one] for one in results]
        found = all(same(one, reproducer.want) for one in flat)
    except lowering.CompileError as error:
        print("error", str(error).replace("\n", " "))
        return
    print("right" if found else f"wrong {flat}".replace("\n", " "))


if __name__ == "__main__":
    main(sys.argv[1])
