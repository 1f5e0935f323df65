"""Functions of jax with derivatives of their own, which the rules of several families share."""
