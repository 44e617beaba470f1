"""An example of the extensions that a package can add to ragtasks. Modules are imported only when they are named."""
