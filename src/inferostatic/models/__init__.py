"""Functions of one event and one θ: potentials, and networks that model score or ratio directly."""
