"""What figures of a benchmark let one conclude, where its tasks are not independent."""
