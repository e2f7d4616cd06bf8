"""What is studied: priors of the parameters, simulators, and toys whose truth is known."""
