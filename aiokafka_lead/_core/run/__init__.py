"""What `Consumer.run` decides: which record may be handled when, what is done, what comes again."""
