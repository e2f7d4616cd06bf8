"""What training reads: events in memory or in files, behind one interface."""
