"""An example of what another package can add to ragtasks; nothing here is imported before it is named."""
