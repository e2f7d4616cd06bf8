"""What is studied: laws of the parameters, simulators, and toys whose truth is known."""
