"""Program: run a reproducer without rewrites, and print "right", "wrong" or "error"."""

from __future__ import annotations

import sys

from tests.defects.reproducer import read, same


def main(name: str) -> None:
    """Run the reproducer `name` without rewrites and refusals."""
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
        arguments = reproducer.arguments
        if reproducer.replicas > 1:
            arguments = tuple([x] * reproducer.replicas for x in arguments)
        results = program(*arguments)
        by_replica = results if reproducer.replicas > 1 else [results]
    except lowering.CompileError as error:
        print("error", str(error).replace("\n", " "))
        return
    leaves = [list(one) if isinstance(one, (tuple, list)) else [one] for one in by_replica]
    is_right = all(same(one, reproducer.want) for one in leaves)
    print("right" if is_right else f"wrong {leaves}".replace("\n", " "))


if __name__ == "__main__":
    main(sys.argv[1])
